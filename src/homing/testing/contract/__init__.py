"""The contract of a store, as a suite: subclass `StoreContract` and bring an `opener` fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def opener(self, tmp_path):
            return MyOpener(tmp_path)        # see `Opener`

It needs pytest, pytest-asyncio and hypothesis. No case names a store, and none is skipped.
"""

import pytest

# Before they are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    *(f"{__name__}.{concept}" for concept in ("adding", "claiming", "saving"))
)

from homing.testing.contract.adding import Adding  # noqa: E402 - see above
from homing.testing.contract.claiming import Claiming, Renewing  # noqa: E402
from homing.testing.contract.opening import Opener  # noqa: E402
from homing.testing.contract.saving import Carrying, Saving  # noqa: E402

__all__ = ["Opener", "StoreContract"]


@pytest.mark.asyncio
class StoreContract(Adding, Claiming, Renewing, Saving, Carrying):
    """Everything that the engine relies on."""
