"""What holds for every test.

A busy machine is slow, and no test may fail for that. A secret of one test is not masked in the
next one.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from homing.domain.known_secrets import forget_secrets

settings.register_profile("homing", deadline=None)
settings.load_profile("homing")


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    yield
    forget_secrets()
