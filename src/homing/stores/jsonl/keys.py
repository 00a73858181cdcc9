"""Keys by their names. Most are a delivery's own and follow from its line in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping

from homing.domain.delivery import Delivery, Key
from homing.stores.judging import KeyName


def own_key(delivery: Delivery) -> Key:
    """The key that a line takes for its delivery, if it says so."""
    return Key(delivery.source, delivery.key or "", delivery.id, delivery.fingerprint)


class KeyIndex(MutableMapping[KeyName, Key]):
    """`found` has the key, or the id of the delivery whose own key it is: then its other parts
    are read from the delivery, and the journal does not hold it."""

    def __init__(self, delivery_of: Callable[[str], Delivery]) -> None:
        self._delivery_of = delivery_of
        self.found: dict[KeyName, Key | str] = {}

    def __getitem__(self, name: KeyName) -> Key:
        found = self.found[name]
        return own_key(self._delivery_of(found)) if isinstance(found, str) else found

    def beside(self) -> Iterator[Key]:
        """Those that the journal has to hold."""
        return (found for found in self.found.values() if not isinstance(found, str))

    def keep_without(self, delivery: Delivery) -> None:
        """Its key stays when it goes, and follows from no delivery any more."""
        name = delivery.source, delivery.key or ""
        if self.found.get(name) == delivery.id:
            self.found[name] = own_key(delivery)

    def __setitem__(self, name: KeyName, key: Key) -> None:
        self.found[name] = key

    def __delitem__(self, name: KeyName) -> None:
        del self.found[name]

    def __contains__(self, name: object) -> bool:
        return name in self.found

    def __iter__(self) -> Iterator[KeyName]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)
