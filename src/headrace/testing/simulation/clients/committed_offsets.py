"""Offsets that members of a group commit, and their invariants for any type of group.

No partition has two owners in one epoch, or generation, of the group. An accepted commit is not
lost, and not overwritten by an earlier one: a member that was removed from the group, and does not
know it yet, commits nothing.
"""

from typing import Final

from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import code_of_number
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.testing.simulation.checks.history import Place, Violation

BY_NAME: Final = 9
"""The newest version of OffsetCommit and OffsetFetch that has topic names instead of ids."""

API_TIMEOUT_S: Final = 10.0

OWNED_ONCE: Final = "no partition has two owners in an epoch"
COMMITS_STAY: Final = "committed offsets of a group are not lost and do not decrease"


class CommitLedger:
    """The assignments and accepted commits of all members of one group."""

    def __init__(self) -> None:
        self._owners: dict[tuple[Place, int], str] = {}
        self._floors: dict[Place, int] = {}
        self.commits = 0

    def owns(self, place: Place, epoch: int, member_id: str) -> None:
        known = self._owners.setdefault((place, epoch), member_id)
        if known != member_id:
            raise Violation(OWNED_ONCE, f"{place} in epoch {epoch}: {known} and {member_id}")

    def floor(self, place: Place) -> int:
        """The lowest offset that a request from now on may return."""
        return self._floors.get(place, -1)

    def committed(self, place: Place, offset: int, floor: int) -> None:
        """Records an accepted commit; `floor` was the committed offset when it was sent."""
        if offset < floor:
            raise Violation(COMMITS_STAY, f"{place}: {offset} was accepted after {floor}")
        self._floors[place] = max(offset, self._floors.get(place, -1))
        self.commits += 1

    def fetched(self, place: Place, offset: int, floor: int) -> None:
        if offset < floor:
            raise Violation(COMMITS_STAY, f"{place}: {offset} is stored, {floor} was accepted")


async def fetch_commit(
    client: ClusterClient, ledger: CommitLedger, group: str, place: Place
) -> int | None:
    """The committed offset of the group, -1 if there is none; None if the request failed."""
    floor = ledger.floor(place)
    wanted = OffsetFetchRequestTopics(name=place.topic, partition_indexes=[place.partition])
    answer = await client.send(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])]),
        OffsetFetchResponse,
        to=CoordinatorNode(group),
        timeout_s=API_TIMEOUT_S,
        at_most=BY_NAME,
        code_of=lambda got: got.groups[0].error_code,
    )
    found = answer.groups[0].topics[0].partitions[0]
    if answer.groups[0].error_code or found.error_code:
        return None
    ledger.fetched(place, found.committed_offset, floor)
    return found.committed_offset


async def commit(
    client: ClusterClient,
    ledger: CommitLedger,
    group: str,
    member: tuple[str, int],
    place: Place,
    offset: int,
    *,
    retry: bool = True,
) -> ErrorCode:
    """Commits an offset as a member with this epoch or generation; returns the error code."""
    floor = ledger.floor(place)
    wanted = OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
    answer = await client.send(
        OffsetCommitRequest(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[OffsetCommitRequestTopic(name=place.topic, partitions=[wanted])],
        ),
        OffsetCommitResponse,
        to=CoordinatorNode(group),
        timeout_s=API_TIMEOUT_S,
        retry=retry,
        at_most=BY_NAME,
        code_of=_code_of_commit,
    )
    code = code_of_number(_code_of_commit(answer))
    if code is ErrorCode.NONE:
        ledger.committed(place, offset, floor)
    return code


def _code_of_commit(answer: OffsetCommitResponse) -> int:
    return answer.topics[0].partitions[0].error_code
