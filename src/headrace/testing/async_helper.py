"""`Headrace` for asyncio: the same methods, without blocking the event loop."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from headrace.testing.helper import RECORDS_S, TIMEOUT_S, Headrace, Text

if TYPE_CHECKING:
    from headrace.client.admin.groups import GroupDescription
    from headrace.client.admin.transactions import TransactionDescription
    from headrace.client.results import TopicPartition
    from headrace.security.authorization.acl import Acl
    from headrace.testing.consumer import ReceivedRecord
    from headrace.testing.producer import Written

T = TypeVar("T")


class AsyncHeadrace:
    """Each method runs the method of `Headrace` with the same name in a thread."""

    def __init__(self, headrace: Headrace) -> None:
        self._blocking = headrace

    @property
    def bootstrap_servers(self) -> str:
        return self._blocking.bootstrap_servers

    def client_config(self, user: str | None = None) -> dict[str, str]:
        return self._blocking.client_config(user)

    async def advance(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        clock = self._blocking.clock
        await asyncio.to_thread(clock.advance, seconds, minutes=minutes, hours=hours, days=days)

    async def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> str:
        return await asyncio.to_thread(
            self._blocking.create_topic,
            name,
            partitions=partitions,
            configs=configs,
            timeout_s=timeout_s,
        )

    async def topics(self, *, timeout_s: float = TIMEOUT_S) -> dict[str, int]:
        return await asyncio.to_thread(self._blocking.topics, timeout_s=timeout_s)

    async def produce(
        self,
        topic: str,
        *values: Text | None,
        key: Text | None = None,
        partition: int | None = None,
        headers: Mapping[str, Text | None] | Iterable[tuple[str, Text | None]] = (),
        timestamp_ms: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> "list[Written]":
        return await asyncio.to_thread(
            self._blocking.produce,
            topic,
            *values,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
            timeout_s=timeout_s,
        )

    async def consume(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        from_offset: int = 0,
        read_committed: bool = False,
        timeout_s: float = RECORDS_S,
    ) -> "list[ReceivedRecord]":
        return await asyncio.to_thread(
            self._blocking.consume,
            topic,
            count,
            partition=partition,
            from_offset=from_offset,
            read_committed=read_committed,
            timeout_s=timeout_s,
        )

    async def grant(self, *acls: "Acl", timeout_s: float = TIMEOUT_S) -> None:
        await asyncio.to_thread(self._blocking.grant, *acls, timeout_s=timeout_s)

    async def revoke(self, *acls: "Acl", timeout_s: float = TIMEOUT_S) -> None:
        await asyncio.to_thread(self._blocking.revoke, *acls, timeout_s=timeout_s)

    async def groups(self, *, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
        return await asyncio.to_thread(self._blocking.groups, timeout_s=timeout_s)

    async def describe_group(
        self, group: str, *, timeout_s: float = TIMEOUT_S
    ) -> "GroupDescription | None":
        return await asyncio.to_thread(self._blocking.describe_group, group, timeout_s=timeout_s)

    async def commit(
        self, group: str, offsets: Mapping[tuple[str, int], int], *, timeout_s: float = TIMEOUT_S
    ) -> None:
        await asyncio.to_thread(self._blocking.commit, group, offsets, timeout_s=timeout_s)

    async def lag(
        self, group: str, topic: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> "dict[TopicPartition, int]":
        return await asyncio.to_thread(self._blocking.lag, group, topic, timeout_s=timeout_s)

    async def wait_for_lag(
        self, group: str, topic: str, *, at_most: int = 0, timeout_s: float = RECORDS_S
    ) -> None:
        await asyncio.to_thread(
            self._blocking.wait_for_lag, group, topic, at_most=at_most, timeout_s=timeout_s
        )

    async def wait_for(
        self, condition: Callable[[], T | None], what: str, *, timeout_s: float = RECORDS_S
    ) -> T:
        """`condition` is called in another thread."""
        return await asyncio.to_thread(
            self._blocking.wait_for, condition, what, timeout_s=timeout_s
        )

    async def fence_producer(self, transactional_id: str, *, timeout_s: float = TIMEOUT_S) -> None:
        await asyncio.to_thread(
            self._blocking.fence_producer, transactional_id, timeout_s=timeout_s
        )

    async def transaction(
        self, transactional_id: str, *, timeout_s: float = TIMEOUT_S
    ) -> "TransactionDescription | None":
        return await asyncio.to_thread(
            self._blocking.transaction, transactional_id, timeout_s=timeout_s
        )

    async def force_rebalance(self, group: str, *, timeout_s: float = TIMEOUT_S) -> None:
        await asyncio.to_thread(self._blocking.force_rebalance, group, timeout_s=timeout_s)

    async def expire_session(
        self, group: str, member_id: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        await asyncio.to_thread(
            self._blocking.expire_session, group, member_id, timeout_s=timeout_s
        )
