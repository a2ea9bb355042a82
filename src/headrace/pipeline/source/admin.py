"""Cluster queries of a pipeline: topics, log bounds, offsets for times, a group's positions.

Every call opens its own client and closes it. A driver makes only a few calls a minute, and its
process may be killed at any time, so no connection stays open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from headrace.client.admin import offsets as client_offsets
from headrace.client.admin.configs import Resource, ResourceKind, describe_configs
from headrace.client.admin.topics import list_topics
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.results import Refusal, TopicPartition
from headrace.pipeline.source.cluster_client import cluster_client
from headrace.pipeline.source.settings import ReadFailed, ReadSettings
from headrace.process_tuning import loop_factory

T = TypeVar("T")

NO_RECORD: Final = -1


class TopicLayout(NamedTuple):
    """A topic as it is now. The same name with another id is another topic."""

    topic_id: bytes
    partitions: tuple[int, ...]


class LogAdmin:
    """Blocking queries to one cluster; each call raises `ReadFailed` on failure."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings

    def check_connection(self) -> None:
        """Asks any broker for the list of brokers."""

        async def ask(client: ClusterClient) -> None:
            await client.refresh([], timeout_s=self._settings.api_timeout_s)

        self._ask(ask)

    def topics(self, chosen: Callable[[str], bool]) -> dict[str, TopicLayout]:
        """The topics whose names `chosen` accepts, without internal topics."""

        async def ask(client: ClusterClient) -> dict[str, TopicLayout]:
            listed = await list_topics(client, timeout_s=self._settings.api_timeout_s)
            return {
                topic.name: TopicLayout(topic.topic_id, tuple(sorted(topic.partitions)))
                for topic in listed
                if chosen(topic.name) and not topic.is_internal
            }

        return self._ask(ask)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._at(dict.fromkeys(partitions, client_offsets.EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end that a reader can reach; for committed data, it is before open transactions."""
        return self._at(dict.fromkeys(partitions, client_offsets.LATEST))

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset at or after each time; `NO_RECORD` if there is none."""
        return self._at(times_ms)

    def committed(self, group: str) -> dict[TopicPartition, client_offsets.CommittedOffset]:
        return self._ask(
            lambda client: client_offsets.committed_offsets(
                client, group, timeout_s=self._settings.api_timeout_s
            )
        )

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Stores the group's positions for other tools to see; the group has no members."""
        refused = self._ask(
            lambda client: client_offsets.commit_offsets(
                client,
                group,
                offsets,
                timeout_s=self._settings.api_timeout_s,
                metadata=metadata,
            )
        )
        for partition, refusal in refused.items():
            if refusal is not None:
                raise ReadFailed(f"group {group} cannot commit {partition}: {refusal}")

    def topic_config(self, topic: str, name: str) -> str | None:
        """A topic setting; None if it is not set or this user may not read it."""
        resource = Resource(ResourceKind.TOPIC, topic)
        found = self._ask(
            lambda client: describe_configs(
                client, [resource], timeout_s=self._settings.api_timeout_s, names=[name]
            )
        )[resource]
        if isinstance(found, Refusal):
            return None
        return next((each.value for each in found if each.name == name), None)

    def _at(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self._ask(
            lambda client: client_offsets.list_offsets(
                client,
                timestamps,
                timeout_s=self._settings.api_timeout_s,
                patience_s=self._settings.api_timeout_s,
                read_committed=self._settings.read_committed,
            )
        )
        offsets = {}
        for partition, answer in found.items():
            if isinstance(answer, Refusal):
                raise ReadFailed(f"{partition}: {answer}")
            offsets[partition] = answer.offset
        return offsets

    def _ask(self, question: Callable[[ClusterClient], Awaitable[T]]) -> T:
        settings = self._settings

        async def ask() -> T:
            async with cluster_client(settings) as client:
                return await question(client)

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                return runner.run(ask())
        except ClientError as error:
            servers = settings.bootstrap_servers
            raise ReadFailed(f"{servers} cannot be asked: {error}") from error


def all_partitions(layouts: Mapping[str, TopicLayout]) -> Sequence[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic, layout in sorted(layouts.items())
        for partition in layout.partitions
    ]
