"""The state of the cluster at one time, as the pages show it. Pure.

A snapshot is built in the background and never changed. Pages read it without asking the cluster.
A number that the cluster did not tell is `None`, and `problems` says why.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.core.group_metadata import Progress

NO_LEADER: Final = -1


class PartitionState(NamedTuple):
    """One partition; the log's start, end and size are None if its leader did not answer."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int | None = None
    end: int | None = None
    bytes: int | None = None
    """The size of the leader's replica."""

    @property
    def is_offline(self) -> bool:
        return self.leader == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)

    @property
    def records(self) -> int | None:
        """Offsets between start and end; compaction and transactions leave fewer records."""
        return None if self.start is None or self.end is None else self.end - self.start


class GroupLag(NamedTuple):
    """How far a group is behind in one topic."""

    group: str
    lag: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic with sums over its partitions, computed once."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionState, ...]
    replication_factor: int
    under_replicated: int
    offline: int
    records: int | None
    bytes: int | None
    """The size of the leaders' replicas."""
    end_sum: int
    groups: tuple[GroupLag, ...] = ()
    records_per_s: float | None = None
    bytes_per_s: float | None = None

    @property
    def lag(self) -> int | None:
        """The largest lag of a group; None without groups."""
        return max((each.lag for each in self.groups), default=None)


def topic_state(
    name: str, topic_id: bytes, is_internal: bool, partitions: tuple[PartitionState, ...]
) -> TopicState:
    """A topic with its sums."""
    records = [each.records for each in partitions]
    sizes = [each.bytes for each in partitions]
    return TopicState(
        name,
        topic_id,
        is_internal,
        partitions,
        replication_factor=max((len(each.replicas) for each in partitions), default=0),
        under_replicated=sum(each.is_under_replicated for each in partitions),
        offline=sum(each.is_offline for each in partitions),
        records=sum(each for each in records if each is not None) if any_known(records) else None,
        bytes=sum(each for each in sizes if each is not None) if any_known(sizes) else None,
        end_sum=sum(each.end or 0 for each in partitions),
    )


def any_known(values: Sequence[int | None]) -> bool:
    return any(value is not None for value in values)


class LogDirState(NamedTuple):
    """One log directory of a broker; sizes are None if the broker does not send them."""

    path: str
    problem: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: int
    replica_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker. `problem` says why it did not answer; a fenced broker is not active."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    leaders: int = 0
    replicas: int = 0
    log_dirs: tuple[LogDirState, ...] = ()
    problem: str | None = None

    @property
    def bytes(self) -> int:
        return sum(each.replica_bytes for each in self.log_dirs)

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group of any kind; `lag` is the sum over its partitions, None if it is unknown."""

    id: str
    kind: str
    state: str
    protocol_type: str
    coordinator: int
    lag: int | None = None
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    pipeline: Progress | None = None
    """The last batch, if a pipeline has committed the offsets."""

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({each.topic for each in self.committed}))


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The whole cluster at one time."""

    taken_ms: int
    taken_s: float
    """On the monotonic clock, for rates."""
    duration_s: float
    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerState, ...]
    topics: Mapping[str, TopicState]
    """By name, sorted."""
    groups: Mapping[str, GroupState]
    """By id, sorted."""
    problems: tuple[str, ...] = ()
    """What the cluster did not tell, and why."""

    @property
    def partitions(self) -> int:
        return sum(len(each.partitions) for each in self.topics.values())

    @property
    def under_replicated(self) -> int:
        return sum(each.under_replicated for each in self.topics.values())

    @property
    def offline(self) -> int:
        return sum(each.offline for each in self.topics.values())

    @property
    def total_lag(self) -> int:
        return sum(each.lag or 0 for each in self.groups.values())

    @property
    def records_per_s(self) -> float | None:
        return total_rate(each.records_per_s for each in self.topics.values())

    @property
    def bytes_per_s(self) -> float | None:
        return total_rate(each.bytes_per_s for each in self.topics.values())

    def broker(self, broker_id: int) -> BrokerState | None:
        return next((each for each in self.brokers if each.id == broker_id), None)


def total_rate(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def lag_of(
    committed: Mapping[TopicPartition, int], topics: Mapping[str, TopicState]
) -> dict[str, int]:
    """The lag in each topic: records after the committed offset that still exist."""
    found: dict[str, int] = {}
    for (name, index), offset in committed.items():
        topic = topics.get(name)
        if topic is None or index >= len(topic.partitions):
            continue
        state = topic.partitions[index]
        if state.partition != index or state.end is None:
            continue
        first = max(offset, state.start or 0)
        found[name] = found.get(name, 0) + max(0, state.end - first)
    return found
