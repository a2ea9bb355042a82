"""Every API and version, sent without rights, with exactly the right, and as a super user.

The requests are raw frames, all versions of an API pipelined on one connection. The broker is a
member of a cluster, so that it also serves the APIs between brokers.
`tests/conformance/test_kafka_access.py` sends the same requests to Apache Kafka.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import pytest

from headrace.broker.network.api_handlers import HANDLERS
from headrace.protocol.api import ApiKey
from headrace.testing import Broker, Cluster
from support.security.access import AUTHORIZER, SUPER_USER, act_as
from support.security.access_cases import CASES, CLUSTER_ACTION, Case
from support.security.access_matrix import (
    MATRIX_SETTINGS,
    check_nobody,
    check_rights,
    prepare,
    refusals,
)
from support.wire.connection import Wire

OTHER_LISTENER: Final = "CLIENTS"
EVERY_API: Final = pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)


class Server(NamedTuple):
    """Connects as a user; the id of the topic."""

    connect: Callable[..., Wire]
    topic_id: bytes


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Cluster(brokers=1, settings=AUTHORIZER | MATRIX_SETTINGS) as cluster:
        (broker,) = cluster.brokers.values()
        connect = partial(_connect, broker)
        with connect(SUPER_USER) as admin:
            topic_id = prepare(admin)
        yield Server(connect, topic_id)


def _connect(broker: Broker, name: str, *, listener: str | None = None) -> Wire:
    return act_as(broker, Wire(broker.bootstrap_servers), name, listener=listener)


def test_every_api_has_a_case() -> None:
    assert not HANDLERS.keys() - CASES.keys()


@EVERY_API
def test_the_right_and_only_the_right_is_enough(server: Server, key: ApiKey) -> None:
    check_rights(server.connect, key, server.topic_id)


@EVERY_API
def test_a_user_without_rights_is_refused(server: Server, key: ApiKey) -> None:
    check_nobody(server.connect, key, server.topic_id)


@EVERY_API
def test_a_super_user_is_never_refused(server: Server, key: ApiKey) -> None:
    for case in CASES[key]:
        with server.connect(SUPER_USER) as wire:
            for version, found in refusals(wire, key, case, server.topic_id).items():
                assert not found, (case, version)


def _is_for_brokers(case: Case) -> bool:
    return any(need.operation is CLUSTER_ACTION for need in case.needs)


BETWEEN_BROKERS: Final = [key for key in HANDLERS if any(map(_is_for_brokers, CASES[key]))]


@pytest.mark.parametrize("key", BETWEEN_BROKERS, ids=lambda key: key.name)
def test_brokers_are_believed_only_on_their_own_listener(server: Server, key: ApiKey) -> None:
    for number, case in enumerate(CASES[key]):
        if not _is_for_brokers(case):
            continue
        with server.connect(f"{key.name}-{number}", listener=OTHER_LISTENER) as wire:
            for version, found in refusals(wire, key, case, server.topic_id).items():
                assert found == {case.needs[0].code}, (case, version)
        with server.connect(SUPER_USER, listener=OTHER_LISTENER) as wire:
            # Brokers that are super users can move to another listener one by one.
            for version, found in refusals(wire, key, case, server.topic_id).items():
                assert not found, (case, version)
