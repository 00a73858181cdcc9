"""The contract of a store, as a suite: subclass `StoreContract` and define a fixture `opener`.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def opener(self, tmp_path):
            return MyOpener(tmp_path)        # see `Opener`

It needs pytest, pytest-asyncio and hypothesis. No case names a store, and none is skipped. Codes
such as I11 are explained in docs/invariants.md.
"""

import pytest

# Before they are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{concept}"
        for concept in (
            "adding",
            "adding_many",
            "batching",
            "bounding",
            "carrying",
            "claiming",
            "closing",
            "counting",
            "expiring",
            "families",
            "filtering",
            "histories",
            "history",
            "ledger",
            "marking",
            "naming",
            "noting",
            "ordering",
            "paging",
            "purging",
            "racing",
            "reading",
            "reopening",
            "saving",
            "sharing",
            "showing",
            "terms",
            "waiting",
        )
    )
)

# ruff: noqa: E402 - the line above must come first
from homing.testing.contract.adding import Adding
from homing.testing.contract.adding_many import AddingMany
from homing.testing.contract.batching import Batches, HeldAndLost, Removals
from homing.testing.contract.bounding import Bounding
from homing.testing.contract.carrying import Carrying
from homing.testing.contract.claiming import Claiming, Renewing
from homing.testing.contract.closing import Closing
from homing.testing.contract.counting import Counting
from homing.testing.contract.expiring import PurgingPayloads, PurgingTheRest
from homing.testing.contract.families import AddingFamilies, FanningOut
from homing.testing.contract.filtering import Filtering
from homing.testing.contract.histories import Histories
from homing.testing.contract.ledger import Ledger
from homing.testing.contract.marking import Marking
from homing.testing.contract.naming import Naming
from homing.testing.contract.noting import Noting
from homing.testing.contract.opening import Opener
from homing.testing.contract.ordering import (
    ContentWithItsRecord,
    CountingBeside,
    EncodingFirst,
    JudgingChildren,
    JudgingInTurn,
)
from homing.testing.contract.paging import Paging
from homing.testing.contract.purging import PurgingAttempts, PurgingDeliveries
from homing.testing.contract.racing import RacingHandles, RacingProcesses
from homing.testing.contract.reading import Reading
from homing.testing.contract.reopening import Reopening
from homing.testing.contract.saving import Saving
from homing.testing.contract.sharing import Sharing
from homing.testing.contract.showing import ShowingContract
from homing.testing.contract.terms import Terms
from homing.testing.contract.waiting import KnowingWhen, Waiting

__all__ = [
    "BoundedReadsContract",
    "Opener",
    "ShowingStoreContract",
    "StoreContract",
]


@pytest.mark.asyncio
class StoreContract(
    Adding,
    AddingFamilies,
    AddingMany,
    Claiming,
    Renewing,
    Saving,
    Carrying,
    FanningOut,
    Closing,
    EncodingFirst,
    JudgingInTurn,
    JudgingChildren,
    CountingBeside,
    ContentWithItsRecord,
    Batches,
    Removals,
    HeldAndLost,
    Ledger,
    Terms,
    Reading,
    Filtering,
    Counting,
    Paging,
    Marking,
    Naming,
    Noting,
    PurgingAttempts,
    PurgingDeliveries,
    PurgingPayloads,
    PurgingTheRest,
    Reopening,
    Waiting,
    KnowingWhen,
    Sharing,
    RacingHandles,
    RacingProcesses,
    Histories,
):
    """Everything that the engine relies on."""


@pytest.mark.asyncio
class BoundedReadsContract(Bounding):
    """Further cases for a store that can end its reads early (capability `BoundedReads`)."""


@pytest.mark.asyncio
class ShowingStoreContract(ShowingContract):
    """Further cases for a store that writes records by a RecordLayout (capability `Showing`)."""
