"""Every API and version, sent without rights, with exactly the right, and as a super user.

The requests are raw frames, all versions of an API pipelined on one connection. The broker is a
member of a cluster, so that it also serves the APIs between brokers.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from headrace.broker.handlers.find_coordinator import GROUP, TRANSACTION
from headrace.broker.network.api_handlers import HANDLERS
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode
from headrace.protocol.layout import fields_of
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.acl import Acl
from headrace.testing import Broker, Cluster
from support.security.access import (
    AUTHORIZER,
    SUPER_USER,
    act_as,
    allow,
    grant,
)
from support.security.access_cases import (
    CASES,
    CLUSTER_ACTION,
    DOOMED_TOPIC,
    TOPIC_NAME,
    Case,
    Need,
    build_request,
)
from support.waiting import wait_for
from support.wire.batches import topic_id_of
from support.wire.connection import Wire
from support.wire.topics import create_topic

NOBODY: Final = "nobody"
OTHER_LISTENER: Final = "CLIENTS"
REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
SETTINGS: Final = {
    **AUTHORIZER,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


class Server:
    """The broker and the id of its topic."""

    def __init__(self, broker: Broker, topic_id: bytes) -> None:
        self.broker = broker
        self.topic_id = topic_id

    def connect(self, name: str, *, listener: str | None = None) -> Wire:
        wire = Wire(self.broker.bootstrap_servers)
        return act_as(self.broker, wire, name, listener=listener)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Cluster(brokers=1, settings=SETTINGS) as cluster:
        (broker,) = cluster.brokers.values()
        with Wire(broker.bootstrap_servers) as wire:
            act_as(broker, wire, SUPER_USER)
            create_topic(wire, TOPIC_NAME)
            create_topic(wire, DOOMED_TOPIC)
            topic_id = topic_id_of(wire, TOPIC_NAME)
            for key_type in (GROUP, TRANSACTION):
                wait_for(partial(_has_coordinator, wire, key_type), "the coordinator is loaded")
        grant(broker, *_all_acls())
        yield Server(broker, topic_id)


def _has_coordinator(wire: Wire, key_type: int) -> bool:
    find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
    (found,) = wire.call(find, FindCoordinatorResponse).coordinators
    return found.error_code == ErrorCode.NONE


def _users(key: ApiKey) -> Iterator[tuple[Case, str, tuple[Need, ...]]]:
    """Each case with a user that has all its rights, and with users that lack one of them."""
    for number, case in enumerate(CASES[key]):
        yield case, f"{key.name}-{number}", case.needs
        for missing in case.needs if len(case.needs) > 1 else ():
            left = tuple(need for need in case.needs if need is not missing)
            yield case, f"{key.name}-{number}-without-{missing.code.name}", left


def _all_acls() -> Iterator[Acl]:
    for key in CASES:
        for _, name, needs in _users(key):
            for need in needs:
                yield allow(name, need.operation, need.type, need.name)


def _codes(answer: Struct) -> Iterator[int]:
    """All error codes in a response."""
    for field in fields_of(type(answer)):
        value = getattr(answer, field.name)
        if field.struct is not None:
            for part in value or () if field.array else (value,):
                if part is not None:
                    yield from _codes(part)
        elif field.name.endswith("error_code"):
            yield value


def _versions(spec: ApiSpec, case: Case) -> range:
    first = max(spec.min_version, case.first_version)
    return range(first, min(spec.max_version, case.last_version) + 1)


def _refusals(server: Server, wire: Wire, key: ApiKey, case: Case) -> dict[int, set[ErrorCode]]:
    """The authorization errors of each version, from requests that are sent together."""
    spec = APIS[key]
    sent = {}
    for version in _versions(spec, case):
        request = build_request(spec.request, version, case, server.topic_id)
        sent[wire.send(request, version)] = version
    found = {}
    for version in sent.values():
        correlation_id, answer = wire.receive(spec, version)
        assert sent[correlation_id] == version
        found[version] = REFUSALS.intersection(map(ErrorCode, _codes(answer)))
    return found


def test_every_api_has_a_case() -> None:
    assert not HANDLERS.keys() - CASES.keys()


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_the_right_and_only_the_right_is_enough(server: Server, key: ApiKey) -> None:
    for case, name, needs in _users(key):
        with server.connect(name) as wire:
            missing = {need.code for need in case.needs if need not in needs}
            for version, refusals in _refusals(server, wire, key, case).items():
                assert refusals == missing, (case, name, version)


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_a_user_without_rights_is_refused(server: Server, key: ApiKey) -> None:
    """The first right that is missing decides: each code of Kafka, and no other."""
    for case in CASES[key]:
        expected = {need.code for need in case.needs[:1]}
        with server.connect(NOBODY) as wire:
            for version, refusals in _refusals(server, wire, key, case).items():
                assert refusals == expected, (case, version)


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_a_super_user_is_never_refused(server: Server, key: ApiKey) -> None:
    for case in CASES[key]:
        with server.connect(SUPER_USER) as wire:
            for version, refusals in _refusals(server, wire, key, case).items():
                assert not refusals, (case, version)


def _is_for_brokers(case: Case) -> bool:
    return any(need.operation is CLUSTER_ACTION for need in case.needs)


BETWEEN_BROKERS: Final = [key for key in HANDLERS if any(map(_is_for_brokers, CASES[key]))]


@pytest.mark.parametrize("key", BETWEEN_BROKERS, ids=lambda key: key.name)
def test_brokers_are_believed_only_on_their_own_listener(server: Server, key: ApiKey) -> None:
    for number, case in enumerate(CASES[key]):
        if not _is_for_brokers(case):
            continue
        with server.connect(f"{key.name}-{number}", listener=OTHER_LISTENER) as wire:
            for version, refusals in _refusals(server, wire, key, case).items():
                assert refusals == {case.needs[0].code}, (case, version)
