"""`Headrace`, the helper for the tests of a Kafka application.

The helper speaks Kafka's protocol, so it works with any cluster; `trouble` and `clock` need a
broker of `headrace.testing`. Its methods block for at most `timeout_s`; `aio` has the same methods
as coroutines.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.client.admin.brokers import describe_cluster
from headrace.client.admin.groups import GroupDescription, ListedGroup, list_groups
from headrace.client.admin.offsets import commit_offsets, committed_offsets, list_bounds
from headrace.client.admin.topics import NewTopic, create_topics, list_topics
from headrace.client.broker_requests import Listing
from headrace.client.client import ClusterClient
from headrace.client.errors import RequestRefused
from headrace.client.login.security import Security
from headrace.client.results import Refusal, TopicPartition
from headrace.records.partitioner import partition_for_key
from headrace.security.authorization.acl import Acl
from headrace.testing import consumer, group_eviction, producer
from headrace.testing.cleanup import Inventory, clean, take_inventory
from headrace.testing.client_thread import ClientThread
from headrace.testing.consumer import DeadlineMissed, ReadRequest, ReceivedRecord
from headrace.testing.producer import RecordToWrite, Written

if TYPE_CHECKING:
    from headrace.client.admin.transactions import TransactionDescription
    from headrace.testing.async_helper import AsyncHeadrace
    from headrace.testing.trouble import Trouble
    from headrace.testing.virtual_clock import VirtualClock

T = TypeVar("T")

TIMEOUT_S: Final = 30.0  # enough for a response on a busy machine
RECORDS_S: Final = 10.0
PAUSE_S: Final = 0.01

Text = bytes | str


class HelperBroker(Protocol):
    """The broker that a test uses, in this process or elsewhere."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client_security(self) -> Security: ...

    def client_config(self, user: str | None = None) -> dict[str, str]: ...

    @property
    def trouble(self) -> "Trouble": ...

    @property
    def clock(self) -> "VirtualClock": ...

    def now_ms(self) -> int: ...

    def ready(self) -> None:
        """Prepares for the next test: the broker runs, and no injected fault is left."""
        ...


class Headrace:
    """The helper for the tests of one broker or cluster."""

    def __init__(self, broker: HelperBroker) -> None:
        self.broker = broker
        self._thread = ClientThread(
            lambda: broker.bootstrap_servers, lambda: broker.client_security
        )
        self._inventory: Inventory | None = None
        self._turns: dict[str, int] = {}

    # --- start and end of a test ----------------------------------------------------------------

    def begin(self) -> None:
        """Begins a test: `clean` will keep the topics and groups that exist now."""
        self.broker.ready()
        self._turns.clear()
        self._inventory = self._call(lambda client: take_inventory(client, TIMEOUT_S))

    def clean(self) -> None:
        """Deletes the topics and groups created since `begin`, and removes pending faults."""
        self.broker.ready()
        before, self._inventory = self._inventory, None
        if before is not None:
            self._call(lambda client: clean(client, before, TIMEOUT_S))

    def close(self) -> None:
        """Closes the helper's connections."""
        self._thread.close()

    def _call(self, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
        return self._thread.call(ask)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""
        return self.broker.bootstrap_servers

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """The settings of a client of a secured broker; see `Broker.client_config`."""
        return self.broker.client_config(user)

    @property
    def trouble(self) -> "Trouble":
        """Faults for the next requests of clients."""
        return self.broker.trouble

    @property
    def clock(self) -> "VirtualClock":
        """The broker's `VirtualClock`."""
        return self.broker.clock

    @cached_property
    def aio(self) -> "AsyncHeadrace":
        """The same methods as coroutines."""
        from headrace.testing.async_helper import AsyncHeadrace

        return AsyncHeadrace(self)

    # --- topics ---------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> str:
        """Creates a topic and returns its name, a new one if none is given; raises
        `RequestRefused`."""
        chosen = name or f"topic-{uuid.uuid4().hex[:12]}"
        settings = {key: str(value) for key, value in (configs or {}).items()}
        topic = NewTopic(chosen, partitions, configs=settings)
        done = self._call(lambda client: create_topics(client, [topic], timeout_s=timeout_s))
        refusal = done[chosen]
        if refusal is not None:
            raise RequestRefused(refusal.code, f"topic {chosen!r}: {refusal}")
        return chosen

    def topics(self, *, timeout_s: float = TIMEOUT_S) -> dict[str, int]:
        """The number of partitions of each topic, without internal topics."""
        found = self._call(lambda client: list_topics(client, timeout_s=timeout_s))
        return {topic.name: len(topic.partitions) for topic in found if not topic.is_internal}

    # --- rights ---------------------------------------------------------------------------------

    def grant(self, *acls: Acl, timeout_s: float = TIMEOUT_S) -> None:
        """Adds ACLs, such as `allow("alice", "read", topic="orders")`, also those that deny."""
        from headrace.client.admin.acls import create_acls

        _raise_refusals(self._call(lambda client: create_acls(client, acls, timeout_s=timeout_s)))

    def revoke(self, *acls: Acl, timeout_s: float = TIMEOUT_S) -> None:
        """Removes exactly these ACLs; those that do not exist do not matter."""
        from headrace.client.admin.acls import delete_acls

        _raise_refusals(self._call(lambda client: delete_acls(client, acls, timeout_s=timeout_s)))

    # --- brokers --------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0, *, timeout_s: float = TIMEOUT_S) -> int:
        """The id of the broker that leads; waits during an election. Raises `DeadlineMissed`."""

        async def ask(client: ClusterClient) -> int | None:
            info = (await client.refresh([topic], timeout_s=timeout_s)).topic(topic)
            found = None if info is None else info.partitions.get(partition)
            return None if found is None or found.leader < 0 else found.leader + 1

        what = f"{topic}-{partition} has a leader"
        return self.wait_for(lambda: self._call(ask), what, timeout_s=timeout_s) - 1

    def wait_until_healthy(
        self, brokers: Collection[int] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Returns when exactly these brokers are in the cluster, with a controller, all in sync.

        Without `brokers`, these are the brokers that are in the cluster now.
        """

        async def ask(client: ClusterClient) -> bool:
            cluster = await describe_cluster(client, timeout_s=timeout_s)
            live = {broker.id for broker in cluster.live}
            topics = await list_topics(client, timeout_s=timeout_s)
            return (
                (brokers is None or live == set(brokers))
                and cluster.controller_id in live
                and all(
                    info.leader >= 0 and set(info.isr) == set(info.replicas) & live
                    for topic in topics
                    for info in topic.partitions.values()
                )
            )

        self.wait_for(lambda: self._call(ask), "the cluster is healthy", timeout_s=timeout_s)

    # --- records --------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        *values: Text | None,
        key: Text | None = None,
        partition: int | None = None,
        headers: Mapping[str, Text | None] | Iterable[tuple[str, Text | None]] = (),
        timestamp_ms: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> list[Written]:
        """Writes a record for each value, acknowledged by all replicas; returns their positions.

        The topic is created if it does not exist. A key chooses the partition as in Java clients;
        records without a key are spread over the partitions, one after the other. Raises
        `RequestRefused`, and TypeError for a value that is neither bytes nor str.
        """
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        stamp_ms = self.broker.now_ms() if timestamp_ms is None else timestamp_ms
        encoded = tuple((name, _bytes(value, f"header {name!r}")) for name, value in pairs)
        key_bytes = _bytes(key, "key")
        records = [
            RecordToWrite(_bytes(value, "value"), key_bytes, encoded, stamp_ms) for value in values
        ]
        return self._call(
            lambda client: self._produce(client, topic, records, partition, timeout_s)
        )

    async def _produce(
        self,
        client: ClusterClient,
        topic: str,
        records: Sequence[RecordToWrite],
        partition: int | None,
        timeout_s: float,
    ) -> list[Written]:
        count = await self._partitions_of(client, topic, timeout_s)
        batches: dict[int, list[tuple[int, RecordToWrite]]] = {}
        for number, record in enumerate(records):
            chosen = self._choose(topic, record, count) if partition is None else partition
            batches.setdefault(chosen, []).append((number, record))
        written: dict[int, Written] = {}
        for chosen, batch in batches.items():
            places = await producer.produce(
                client, topic, chosen, [record for _, record in batch], timeout_s=timeout_s
            )
            for (number, _), place in zip(batch, places, strict=True):
                written[number] = place
        return [written[number] for number in range(len(records))]

    async def _partitions_of(self, client: ClusterClient, topic: str, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        pause_s = 0.0  # a single broker needs no wait
        while True:
            info = (await client.refresh([topic], timeout_s=timeout_s)).topic(topic)
            if info is not None:
                return len(info.partitions)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the topic {topic!r} was created but is not in the metadata")
            # The topic may exist before all brokers of the cluster have its metadata.
            await create_topics(client, [NewTopic(topic)], timeout_s=timeout_s)
            await asyncio.sleep(pause_s)
            pause_s = PAUSE_S

    def _choose(self, topic: str, record: RecordToWrite, count: int) -> int:
        if record.key is not None:
            return partition_for_key(record.key, count)
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return turn % count

    def consume(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        from_offset: int = 0,
        read_committed: bool = False,
        timeout_s: float = RECORDS_S,
    ) -> list[ReceivedRecord]:
        """Waits for the first `count` records and returns them; without a count, all records.

        Reads partitions from `from_offset` without a group, so it stores no position and does not
        disturb your consumers. It also waits for the topic. Raises `DeadlineMissed`, an
        AssertionError that shows the records that did arrive.
        """
        wanted = ReadRequest(topic, count, partition, from_offset, read_committed, timeout_s)
        return self._call(lambda client: consumer.consume(client, wanted))

    # --- groups ---------------------------------------------------------------------------------

    def groups(self, *, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
        """The state of each group, by group id."""
        found: Listing[ListedGroup] = self._call(
            lambda client: list_groups(client, timeout_s=timeout_s)
        )
        return {group.group_id: group.state for group in found.complete()}

    def describe_group(
        self, group: str, *, timeout_s: float = TIMEOUT_S
    ) -> GroupDescription | None:
        """The state and the members of a group of any type; None if it does not exist."""
        return self._call(
            lambda client: group_eviction.describe(client, group, timeout_s=timeout_s)
        )

    def commit(
        self, group: str, offsets: Mapping[tuple[str, int], int], *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Commits offsets for a group without members; raises `RequestRefused`."""
        named = {TopicPartition(*key): offset for key, offset in offsets.items()}
        done = self._call(lambda client: commit_offsets(client, group, named, timeout_s=timeout_s))
        for refusal in done.values():
            if refusal is not None:
                raise RequestRefused(refusal.code, f"offsets of {group!r}")

    def lag(
        self, group: str, topic: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """The number of records after the group's position, by partition.

        Covers all partitions with a position. With `topic`, it covers all partitions of that
        topic; a partition without a position counts from its start.
        """
        return self._call(lambda client: self._lag(client, group, topic, timeout_s))

    async def _lag(
        self, client: ClusterClient, group: str, topic: str | None, timeout_s: float
    ) -> dict[TopicPartition, int]:
        committed = await committed_offsets(client, group, timeout_s=timeout_s)
        partitions = list(committed)
        if topic is not None:
            info = (await client.refresh([topic], timeout_s=timeout_s)).topic(topic)
            partitions = [TopicPartition(topic, index) for index in info.partitions] if info else []
        bounds = await list_bounds(client, partitions, timeout_s=timeout_s)
        lag = {}
        for each, bound in sorted(bounds.items()):
            if not isinstance(bound, Refusal):
                start, end = bound
                position = committed[each].offset if each in committed else start
                lag[each] = max(0, end - max(position, start))
        return lag

    def wait_for_lag(
        self, group: str, topic: str, *, at_most: int = 0, timeout_s: float = RECORDS_S
    ) -> None:
        """Returns when the group's lag in the topic is at most `at_most`; raises
        `DeadlineMissed`."""

        def lag() -> str:
            left = self.lag(group, topic)
            if left and sum(left.values()) <= at_most:
                return ""
            return ", ".join(f"{each}: {count}" for each, count in left.items()) or "no topic"

        self.wait_for(lambda: not lag(), f"{group!r} has read {topic!r}", timeout_s=timeout_s)

    def wait_for(
        self, condition: Callable[[], T | None], what: str, *, timeout_s: float = RECORDS_S
    ) -> T:
        """Returns the first true value of `condition`; raises `DeadlineMissed` with `what`."""
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise DeadlineMissed(f"not within {timeout_s:g} s: {what}", ())
            time.sleep(PAUSE_S)

    # --- faults by Kafka's protocol -------------------------------------------------------------

    def fence_producer(self, transactional_id: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Aborts the producer's open transaction and fences it: its next request fails."""
        from headrace.client.admin.transactions import fence

        self._call(lambda client: fence(client, transactional_id, timeout_s=timeout_s))

    def transaction(
        self, transactional_id: str, *, timeout_s: float = TIMEOUT_S
    ) -> "TransactionDescription | None":
        """The state of a transactional id; None if the id has not been used."""
        from headrace.client.admin.transactions import describe_transaction

        found = self._call(
            lambda client: describe_transaction(client, transactional_id, timeout_s=timeout_s)
        )
        return None if isinstance(found, Refusal) else found

    def force_rebalance(self, group: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Starts a rebalance of the group.

        Members of a classic group must join again. The newer protocols move only the necessary
        partitions, so there all members are removed, as if their sessions had expired.
        """
        self._call(
            lambda client: group_eviction.rebalance(
                client, self._thread.new_client, group, timeout_s=timeout_s
            )
        )

    def expire_session(
        self, group: str, member_id: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Removes a member, or all members, as if the session had expired.

        The member learns of it with its next heartbeat.
        """
        self._call(lambda client: self._expire(client, group, member_id, timeout_s))

    async def _expire(
        self, client: ClusterClient, group: str, member_id: str | None, timeout_s: float
    ) -> None:
        found = await group_eviction.describe(client, group, timeout_s=timeout_s)
        members = [
            member
            for member in (found.members if found is not None else ())
            if member_id in (None, member.member_id)
        ]
        if found is None or not members:
            msg = f"the group {group!r} does not have this member"
            raise ValueError(msg)
        await group_eviction.remove_members(client, found, members, timeout_s=timeout_s)


def _raise_refusals(outcomes: Mapping[Acl, Refusal | None]) -> None:
    for acl, refusal in outcomes.items():
        if refusal is not None:
            raise RequestRefused(refusal.code, f"ACL {acl}: {refusal}")


def _bytes(text: object, what: str) -> bytes | None:
    if isinstance(text, str):
        return text.encode()
    if text is None or isinstance(text, bytes | bytearray | memoryview):
        return None if text is None else bytes(text)
    hint = "json.dumps(...)" if isinstance(text, dict | list) else "str(...)"
    raise TypeError(f"{what} is a {type(text).__name__}: pass bytes, str or None, e.g. {hint}")
