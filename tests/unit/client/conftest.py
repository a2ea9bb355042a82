"""A minimal broker for tests that script its responses."""

import pytest

from support.wire.fake_broker import FakeBroker


@pytest.fixture
def make_broker() -> type[FakeBroker]:
    """The broker class; a test starts as many as it needs."""
    return FakeBroker
