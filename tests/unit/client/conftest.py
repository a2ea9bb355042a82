"""A broker of a few lines, for tests that script its answers."""

import pytest

from support.wire.fake_broker import FakeBroker


@pytest.fixture
def make_broker() -> type[FakeBroker]:
    """The class itself: a test starts as many as it needs."""
    return FakeBroker
