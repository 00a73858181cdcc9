"""What an effect makes of a record and its content, for stores that keep them whole."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery
from homing.domain.writes import Write
from homing.stores.judging import Effect


def record_after(effect: Effect) -> Delivery | None:
    """The record as it is to be stored, with its version; None: it is removed."""
    after = effect.after
    if after is None or after.version == effect.version:
        return after
    return replace(after, version=effect.version)


def content_after(effect: Effect, stored: Mapping[str, Content]) -> Content | None:
    """The content after its writes; None: they leave it as it is stored."""
    content: Content | None = None
    for write in effect.writes:
        if write.over is None:
            content = Content(write.payload or b"", write.results)
        elif write.results or write.payload is not None or write.drop_results_but is not None:
            content = _changed(content or stored[write.delivery.id], write)
    return content


def _changed(before: Content, write: Write) -> Content:
    payload, results = before.payload, before.results
    if (kept := write.drop_results_but) is not None:
        results = {name: result for name, result in results.items() if name.startswith(kept)}
    if write.keep_payload_as is not None:
        results = {**results, write.keep_payload_as: payload}
    if write.payload is not None:
        payload = write.payload
    return Content(payload, {**results, **write.results})
