"""Requests about many partitions: split by leader, asked at once, and again for what moved."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.errors import LeaderUnknown
from headrace.client.outcomes import MOVED, Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode

V = TypeVar("V")
Answers: TypeAlias = dict[TopicPartition, V | Refusal]
Ask: TypeAlias = Callable[[int, Sequence[TopicPartition]], Awaitable[Answers[V]]]
"""Asks one broker about the partitions that it leads."""

# A leader that moves is found by the second round; one that is being elected needs a few more.
MAX_ROUNDS = 6
PAUSE_S = 0.2


async def ask_leaders(
    client: ClusterClient, partitions: Sequence[TopicPartition], ask: Ask[V], *, timeout_s: float
) -> Answers[V]:
    """One answer for each partition; what has no leader, or does not exist, gets a refusal."""
    answers: Answers[V] = {}
    left = list(dict.fromkeys(partitions))
    for attempt in range(MAX_ROUNDS):
        if attempt:
            await asyncio.sleep(PAUSE_S * attempt)
        unknown = {each.topic for each in left if attempt or not client.metadata.topic(each.topic)}
        if unknown:
            await client.refresh(sorted(unknown), timeout_s=timeout_s)
        led, leaderless = _by_leader(client, left)
        answers.update(leaderless)
        for result in await asyncio.gather(*(ask(leader, of) for leader, of in led.items())):
            answers.update(result)
        left = [each for each in left if _has_moved(answers.get(each))]
        if not left:
            break
    return answers


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
