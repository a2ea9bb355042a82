"""Fixtures for tests of a broker with an authorizer, which the tests of a run share."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.testing import Broker
from support.security.access import AUTHORIZER, SUPER_USER, TopicUser, act_as
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import create_topic

SETTINGS: Final = {
    **AUTHORIZER,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1


@pytest.fixture(scope="session")
def secured() -> Iterator[Broker]:
    """A broker with an authorizer, whose coordinators are loaded."""
    with Broker(settings=SETTINGS) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            act_as(broker, wire, SUPER_USER)
            for key_type in (GROUP_KEY, TRANSACTION_KEY):
                wait_for(partial(_has_coordinator, wire, key_type), "the coordinator is loaded")
        yield broker


def _has_coordinator(wire: Wire, key_type: int) -> bool:
    find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
    (found,) = wire.call(find, FindCoordinatorResponse).coordinators
    return found.error_code == ErrorCode.NONE


@pytest.fixture
def access(secured: Broker) -> Iterator[TopicUser]:
    """A user without rights; its topic exists."""
    made = TopicUser(secured)
    create_topic(made.connect(SUPER_USER), made.topic)
    yield made
    made.close()


@pytest.fixture
def alice(access: TopicUser) -> Wire:
    """A connection of the user."""
    return access.connect()


@pytest.fixture
def admin(access: TopicUser) -> Wire:
    """A connection of the super user."""
    return access.connect(SUPER_USER)
