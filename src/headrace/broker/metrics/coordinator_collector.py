"""The groups, transactions and share groups that this broker coordinates."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.broker.metrics.samples import gauge, gauges_by
from headrace.clock import Clock
from headrace.metrics.family import MetricFamily

if TYPE_CHECKING:
    from headrace.broker.coordinators.coordinator_registry import CoordinatorRegistry
    from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime

GROUPS_A_SLICE: Final = 500
_CLASSIC_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
)
_KINDS: Final = ("classic", "consumer", "share")
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


class CoordinatorCollectorHost(Protocol):
    """What the collector needs of the broker."""

    clock: Clock

    @property
    def built_coordinators(self) -> "CoordinatorRegistry | None":
        """None before the first request for a group or a transaction."""
        ...


class CoordinatorCollector:
    """Counts by state; names of groups are not labels here."""

    def __init__(self, host: CoordinatorCollectorHost) -> None:
        self._host = host

    def collect(self) -> Iterator[MetricFamily | None]:
        coordinators = self._host.built_coordinators
        if coordinators is None:
            return
        yield from self._groups(coordinators)
        yield from self._transactions(coordinators)
        yield gauges_by(
            "headrace_coordinator_loading_partitions",
            "Partitions of internal topics whose coordinators are loading.",
            "topic",
            {each.topic: len(each.loading) for each in _runtimes(coordinators)},
        )

    def _groups(self, coordinators: "CoordinatorRegistry") -> Iterator[MetricFamily | None]:
        states: Counter[tuple[str, str]] = Counter()
        offsets = number = 0
        now_ms = self._host.clock.wall_ms()
        for shard in coordinators.groups.shards():
            committed = shard.offsets.state.committed
            for group in tuple(shard.groups.values()):
                offsets += sum(map(len, committed.topics(group.group_id).values()))
                states[str(group.kind), group.state_name(now_ms)] += 1
                number += 1
                if number % GROUPS_A_SLICE == 0:
                    yield None
        prefix = "kafka_coordinator_group_groupmetadatamanager_"
        kinds = {kind: sum(n for (k, _), n in states.items() if k == kind) for kind in _KINDS}
        yield gauge(
            f"{prefix}numgroups", "Groups of any kind on this coordinator.", sum(kinds.values())
        )
        for state in _CLASSIC_STATES:
            yield gauge(
                f"{prefix}numgroups{state.lower()}",
                f"Classic groups in the state {state}.",
                states["classic", state],
            )
        yield gauge(f"{prefix}numoffsets", "Committed offsets on this coordinator.", offsets)
        yield gauges_by(
            "kafka_server_group_coordinator_metrics_group_count",
            "Groups on this coordinator, by the kind of group.",
            "protocol",
            kinds,
        )
        for kind in ("consumer", "share"):
            yield gauges_by(
                f"kafka_server_group_coordinator_metrics_{kind}_group_count",
                f"Groups of the {kind} protocol on this coordinator, by state.",
                "state",
                {state.lower(): n for (k, state), n in sorted(states.items()) if k == kind},
            )

    def _transactions(self, coordinators: "CoordinatorRegistry") -> Iterator[MetricFamily | None]:
        states: Counter[str] = Counter(dict.fromkeys(_OPEN_STATES, 0))
        oldest_ms = now_ms = self._host.clock.wall_ms()
        number = 0
        for shard in coordinators.transactions.shards():
            for transaction in tuple(shard.transactions.values()):
                title = transaction.state.title
                states[title] += 1
                if title in _OPEN_STATES and transaction.started_ms >= 0:
                    oldest_ms = min(oldest_ms, transaction.started_ms)
                number += 1
                if number % GROUPS_A_SLICE == 0:
                    yield None
        yield gauges_by(
            "kafka_coordinator_transaction_transactions",
            "Transactional ids on this coordinator, by the state of their last transaction.",
            "state",
            states,
        )
        yield gauge(
            "kafka_coordinator_transaction_oldest_open_seconds",
            "Age of the oldest open transaction on this coordinator; 0 without one.",
            (now_ms - oldest_ms) / 1000,
        )


def _runtimes(coordinators: "CoordinatorRegistry") -> "tuple[CoordinatorRuntime[Any], ...]":
    return (coordinators.groups, coordinators.transactions, coordinators.share_state)
