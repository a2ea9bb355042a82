"""Detects that a topic was deleted or created again during a run.

librdkafka identifies topics by name: it continues in the new topic at the offset of the old one,
and may skip its first records or wait for records that never come. The topic id differs.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.cli.session import Session
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.metadata import TopicInfo

CHECK_S: Final = 3.0
MAX_CHECK_S: Final = 60.0
"""The longest pause between two checks while no broker answers."""
TIMEOUT_S: Final = 2.0

FindTopics = Callable[[], Mapping[str, TopicInfo]]
"""The watched topics that exist now; raises `ClientError`."""


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """The topics that changed since the last check."""

    deleted: tuple[str, ...] = ()
    recreated: tuple[TopicInfo, ...] = ()


class TopicWatch:
    """Compares the ids of topics every few seconds."""

    def __init__(self, ids: Mapping[str, bytes], find: FindTopics) -> None:
        # Brokers before Kafka 2.8 have no topic ids: all are zero, and only a deletion that is
        # seen by a check is detected.
        self._ids = dict(ids)
        self._find = find
        self._gone: set[str] = set()
        self._pause_s = CHECK_S
        self._next_check = time.monotonic() + CHECK_S

    def changes(self) -> TopicChanges:
        """The changes since the last call; asks the cluster only if a check is due."""
        if not self._ids or time.monotonic() < self._next_check:
            return TopicChanges()
        try:
            found = self._find()
        except ClientError:
            self._pause_s = min(MAX_CHECK_S, self._pause_s * 2)
            return TopicChanges()
        else:
            self._pause_s = CHECK_S
        finally:
            self._next_check = time.monotonic() + self._pause_s
        return self._compare_ids(found)

    def _compare_ids(self, found: Mapping[str, TopicInfo]) -> TopicChanges:
        deleted = [name for name in self._ids if name not in found and name not in self._gone]
        recreated = [
            topic
            for name, topic in found.items()
            if name in self._gone or self._ids.get(name, topic.topic_id) != topic.topic_id
        ]
        self._gone |= set(deleted)
        self._gone -= set(found)
        self._ids |= {topic.name: topic.topic_id for topic in recreated}
        return TopicChanges(tuple(deleted), tuple(recreated))


def finder(session: Session, names: Mapping[str, bytes]) -> FindTopics:
    """A function that asks the cluster for these topics, with a short timeout."""
    brief = replace(session, timeout_s=min(session.timeout_s, TIMEOUT_S))

    async def work(client: ClusterClient) -> dict[str, TopicInfo]:
        cache = await client.refresh(list(names), timeout_s=brief.timeout_s)
        return {topic.name: topic for topic in cache.topics()}

    return lambda: brief.run(work)
