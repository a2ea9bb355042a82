"""Changes of in-sync replicas as events for the log, with the lag of each replica. Pure."""

from collections.abc import Iterator, Sequence
from logging import INFO, WARNING
from math import isfinite
from typing import Final, NamedTuple

from headrace.log_event import LogEvent, examples
from headrace.replication.leader import IsrProposal, Leader

MAX_LINES: Final = 3
"""Changes of one request that have a line each; more are summarised for each replica."""


class ReplicaLag(NamedTuple):
    """How far a replica was behind its leader; None where that is unknown."""

    records: int | None
    behind_ms: int | None


class IsrChange(NamedTuple):
    """A replica that left or joined the in-sync replicas of one partition."""

    topic: str
    partition: int
    replica: int
    isr: tuple[int, ...]
    lag: ReplicaLag | None
    """None if the replica joined."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def changes_of(
    leader: Leader, proposal: IsrProposal, node_id: int, now: float
) -> tuple[IsrChange, ...]:
    """What the proposal changes, with the lags at this moment.

    A leader that resigns is left out: the reason is its disk, not a lag.
    """
    before = leader.partition.isr
    isr = tuple(id_ for id_, _ in proposal.isr)
    changes = [
        IsrChange(leader.topic, leader.index, id_, isr, _lag(leader, id_, now))
        for id_ in before
        if id_ not in isr and id_ != node_id
    ]
    changes += [
        IsrChange(leader.topic, leader.index, id_, isr, None) for id_ in isr if id_ not in before
    ]
    return tuple(changes)


def _lag(leader: Leader, replica_id: int, now: float) -> ReplicaLag:
    progress = leader.progress.get(replica_id)
    if progress is None:
        return ReplicaLag(None, None)
    end = leader.log.log_end_offset
    records = end - progress.log_end if progress.log_end >= 0 else None
    behind_s = now - progress.caught_up_at
    return ReplicaLag(records, round(behind_s * 1000) if isfinite(behind_s) else None)


def isr_events(changes: Sequence[IsrChange]) -> Iterator[LogEvent]:
    """The lines about the changes of one request that the controller has committed."""
    for joined in (False, True):
        found = [each for each in changes if (each.lag is None) is joined]
        if len(found) <= MAX_LINES:
            yield from map(_event, found)
            continue
        for replica in dict.fromkeys(each.replica for each in found):
            yield _summary([each for each in found if each.replica == replica])


def _event(change: IsrChange) -> LogEvent:
    fields: dict[str, object] = {
        "topic": change.topic,
        "partition": change.partition,
        "replica": change.replica,
        "isr": ",".join(map(str, change.isr)),
    }
    if change.lag is None:
        return LogEvent(INFO, "the ISR expanded", fields)
    fields |= {"lag_records": change.lag.records, "behind_ms": change.lag.behind_ms}
    return LogEvent(WARNING, "the ISR shrank", fields)


def _summary(changes: Sequence[IsrChange]) -> LogEvent:
    """The changes of one replica."""
    fields: dict[str, object] = {"replica": changes[0].replica, "partitions": len(changes)}
    names = examples([each.name for each in changes])
    lags = [each.lag for each in changes if each.lag is not None]
    if not lags:
        return LogEvent(INFO, "the ISRs of many partitions expanded", fields | {"examples": names})
    fields["max_lag_records"] = max((each.records or 0 for each in lags), default=0)
    fields["max_behind_ms"] = max((each.behind_ms or 0 for each in lags), default=0)
    return LogEvent(WARNING, "the ISRs of many partitions shrank", fields | {"examples": names})
