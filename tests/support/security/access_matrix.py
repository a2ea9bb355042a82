"""Sends the requests of `access_cases` to a broker, Headrace's or Apache Kafka's."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode
from headrace.protocol.layout import fields_of
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import Acl
from support.security.access import allow
from support.security.access_cases import (
    CASES,
    DOOMED_TOPIC,
    GROUP_WITH_OFFSETS,
    KEPT_TOPIC,
    SHARE_GROUP,
    TOPIC_NAME,
    Case,
    Need,
    build_request,
)
from support.waiting import wait_for
from support.wire.acls import create_acls
from support.wire.batches import topic_id_of
from support.wire.connection import Wire
from support.wire.topics import create_topic

NOBODY: Final = "nobody"
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
ACLS_PER_REQUEST: Final = 50
REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
MATRIX_SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}

Refusals = dict[int, set[ErrorCode]]
"""The authorization errors in the responses, by version."""


class CaseUser(NamedTuple):
    """A user that has these rights and no others."""

    case: Case
    name: str
    rights: tuple[Need, ...]

    @property
    def missing_codes(self) -> set[ErrorCode]:
        return {need.code for need in self.case.needs if need not in self.rights}


def case_users(key: ApiKey) -> Iterator[CaseUser]:
    """For each case of an API, a user with all its rights, and users that lack one of them."""
    for number, case in enumerate(CASES[key]):
        yield CaseUser(case, f"{key.name}-{number}", case.needs)
        for missing in case.needs if len(case.needs) > 1 else ():
            left = tuple(need for need in case.needs if need is not missing)
            yield CaseUser(case, f"{key.name}-{number}-without-{missing.code.name}", left)


def prepare(admin: Wire) -> bytes:
    """Makes the topics, a group and all ACLs; returns the topic's id."""
    for name in (TOPIC_NAME, DOOMED_TOPIC, KEPT_TOPIC):
        create_topic(admin, name)
    for key_type in (GROUP_KEY, TRANSACTION_KEY):
        wait_for(partial(_has_coordinator, admin, key_type), "the coordinator is loaded")
    _commit_offset(admin)
    _create_share_group(admin)
    acls = list(_all_acls())
    for start in range(0, len(acls), ACLS_PER_REQUEST):
        results = create_acls(admin, acls[start : start + ACLS_PER_REQUEST])
        assert not any(result.error_code for result in results), results
    return topic_id_of(admin, TOPIC_NAME)


def refusals(wire: Wire, key: ApiKey, case: Case, topic_id: bytes) -> Refusals:
    """Sends all versions at once and returns their authorization errors."""
    spec = APIS[key]
    sent = {}
    for version in versions(spec, case):
        request = build_request(spec.request, version, case, topic_id)
        sent[wire.send(request, version)] = version
    found = {}
    for version in sent.values():
        correlation_id, answer = wire.receive(spec, version)
        assert sent[correlation_id] == version
        found[version] = REFUSALS.intersection(map(ErrorCode, _codes(answer)))
    return found


def check_rights(connect: Callable[[str], Wire], key: ApiKey, topic_id: bytes) -> None:
    """Exactly the rights are enough. Without one of them, its error and no other is sent."""
    for user in case_users(key):
        with connect(user.name) as wire:
            for version, found in refusals(wire, key, user.case, topic_id).items():
                assert found == user.missing_codes, (user, version)


def check_nobody(connect: Callable[[str], Wire], key: ApiKey, topic_id: bytes) -> None:
    """Without any right, the first one that is missing decides."""
    for case in CASES[key]:
        expected = {need.code for need in case.needs[:1]}
        with connect(NOBODY) as wire:
            for version, found in refusals(wire, key, case, topic_id).items():
                assert found == expected, (case, version)


def versions(spec: ApiSpec, case: Case) -> range:
    first = max(spec.min_version, case.first_version)
    return range(first, min(spec.max_version, case.last_version) + 1)


def _all_acls() -> Iterator[Acl]:
    for key in CASES:
        for user in case_users(key):
            for need in user.rights:
                yield allow(user.name, need.operation, need.type, need.name)


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


def _has_coordinator(wire: Wire, key_type: int) -> bool:
    find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
    (found,) = wire.call(find, FindCoordinatorResponse).coordinators
    return found.error_code == ErrorCode.NONE


def _create_share_group(wire: Wire) -> None:
    """Makes the share group whose offsets are altered and deleted."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=KEPT_TOPIC, partitions=[partition])
    request = AlterShareGroupOffsetsRequest(group_id=SHARE_GROUP, topics=[topic])

    def altered() -> bool:
        answer = wire.call(request, AlterShareGroupOffsetsResponse)
        return answer.error_code == ErrorCode.NONE

    wait_for(altered, "the share group has offsets")


def _commit_offset(wire: Wire) -> None:
    """Makes the group whose offsets are deleted; it keeps an offset of another topic."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name=KEPT_TOPIC, partitions=[partition])
    request = OffsetCommitRequest(group_id=GROUP_WITH_OFFSETS, topics=[topic])

    def committed() -> bool:
        (answered,) = wire.call(request, OffsetCommitResponse, 8).topics
        return answered.partitions[0].error_code == ErrorCode.NONE

    wait_for(committed, "the offset is committed")
