"""Requests about many partitions: split by leader, sent in parallel, retried for moved leaders."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError, DeadlineExceeded, LeaderUnknown
from headrace.client.results import MOVED, Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode

V = TypeVar("V")
Answers: TypeAlias = dict[TopicPartition, V | Refusal]
SendToLeader: TypeAlias = Callable[[int, Sequence[TopicPartition]], Awaitable[Answers[V]]]
"""Sends one request to a broker about partitions that it leads, without retries: if the broker is
unreachable, another one soon leads its partitions."""

PATIENCE_S = 3.0
"""A moved leader is found in the second round; an election takes a few more."""
PAUSE_S = 0.2
LONGEST_PAUSE_S = 1.0


async def send_to_leaders(
    client: ClusterClient,
    partitions: Sequence[TopicPartition],
    send: SendToLeader[V],
    *,
    timeout_s: float,
    patience_s: float = PATIENCE_S,
    partial: bool = False,
) -> Answers[V]:
    """One answer for each partition; a partition without a leader, or unknown, gets a refusal.

    The call waits up to `patience_s` for a partition without a leader. It waits for the successor
    of an unreachable leader until `timeout_s`, and then raises `DeadlineExceeded`. If `partial`, an
    unreachable leader is treated like no leader.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    answers: Answers[V] = {}
    left = list(dict.fromkeys(partitions))
    attempt = 0
    while True:
        unknown = {each.topic for each in left if attempt or not client.metadata.topic(each.topic)}
        if unknown:
            await client.refresh(sorted(unknown), timeout_s=timeout_s)
        attempt += 1
        led, leaderless = _by_leader(client, left)
        answers.update(leaderless)
        lost: ClientError | None = None
        requests = (_send_to_leader(send, leader, of_leader) for leader, of_leader in led.items())
        for answered, error in await asyncio.gather(*requests):
            answers.update(answered)
            lost = error or lost
        left = [each for each in left if _has_moved(answers.get(each))]
        waited_s = loop.time() - began
        if not left or waited_s >= (timeout_s if lost and not partial else patience_s):
            break
        await asyncio.sleep(min(PAUSE_S * attempt, LONGEST_PAUSE_S))
    if lost is not None and not partial:
        what = f"a request to the leader of {left[0]}"
        raise DeadlineExceeded(what, timeout_s, attempt, lost) from lost
    return answers


async def _send_to_leader(
    send: SendToLeader[V], leader: int, partitions: Sequence[TopicPartition]
) -> tuple[Answers[V], ClientError | None]:
    """The answers; for an unreachable broker, refusals and the error."""
    try:
        return await send(leader, partitions), None
    except ClientError as error:
        if not error.retriable:
            raise
        refusal = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, str(error))
        return dict.fromkeys(partitions, refusal), error


def _by_leader(
    client: ClusterClient, partitions: Sequence[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, Refusal]]:
    led: dict[int, list[TopicPartition]] = {}
    leaderless = {}
    for each in partitions:
        topic = client.metadata.topic(each.topic)
        if topic is None or each.partition not in topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            leaderless[each] = Refusal(code, f"{each} does not exist")
            continue
        try:
            led.setdefault(client.metadata.leader_of(*each), []).append(each)
        except LeaderUnknown as error:
            leaderless[each] = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, str(error))
    return led, leaderless


def _has_moved(answer: V | Refusal | None) -> bool:
    return isinstance(answer, Refusal) and answer.code in MOVED
