"""Requests about many partitions: split by leader, asked at once, and again for what moved."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError, DeadlineExceeded, LeaderUnknown
from headrace.client.results import MOVED, Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode

V = TypeVar("V")
Answers: TypeAlias = dict[TopicPartition, V | Refusal]
Ask: TypeAlias = Callable[[int, Sequence[TopicPartition]], Awaitable[Answers[V]]]
"""Asks one broker, once, about the partitions that it leads. To ask a broker again that cannot be
reached would be in vain: another leads its partitions by then."""

PATIENCE_S = 3.0
"""A leader that moves is found by the second round; one that is being elected needs a few more."""
PAUSE_S = 0.2
LONGEST_PAUSE_S = 1.0


async def ask_leaders(
    client: ClusterClient,
    partitions: Sequence[TopicPartition],
    ask: Ask[V],
    *,
    timeout_s: float,
    patience_s: float = PATIENCE_S,
) -> Answers[V]:
    """One answer for each partition; what has no leader, or does not exist, gets a refusal.

    A partition without a leader is waited for as long as `patience_s` says, a leader that cannot
    be reached until the cluster names another, or `timeout_s` is over: `DeadlineExceeded`.
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
        for asked in await asyncio.gather(*(_try(ask, leader, of) for leader, of in led.items())):
            answers.update(asked[0])
            lost = asked[1] or lost
        left = [each for each in left if _has_moved(answers.get(each))]
        waited_s = loop.time() - began
        if not left or waited_s >= (timeout_s if lost else patience_s):
            break
        await asyncio.sleep(min(PAUSE_S * attempt, LONGEST_PAUSE_S))
    if lost is not None:
        what = f"a question to the leader of {left[0]}"
        raise DeadlineExceeded(what, timeout_s, attempt, lost) from lost
    return answers


async def _try(
    ask: Ask[V], leader: int, partitions: Sequence[TopicPartition]
) -> tuple[Answers[V], ClientError | None]:
    """The answers; for a broker that cannot be reached, refusals and the reason."""
    try:
        return await ask(leader, partitions), None
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
