"""Is the cluster all right? A verdict with reasons, most severe first. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headrace.console.cluster.snapshot import ClusterSnapshot, LogDirState, TopicState

OK: Final = "ok"
WARNING: Final = "warning"
CRITICAL: Final = "critical"
FULL_WARNING: Final = 0.85
FULL_CRITICAL: Final = 0.95
MAX_NAMES: Final = 3
_ORDER: Final = (CRITICAL, WARNING, OK)


class Reason(NamedTuple):
    """One finding, and the page that shows more; the path is empty if there is none."""

    level: str
    text: str
    path: str = ""


class Verdict(NamedTuple):
    """The worst level, a sentence, and all reasons."""

    level: str
    summary: str
    reasons: tuple[Reason, ...]


def verdict_of(snapshot: ClusterSnapshot | None, problem: str | None = None) -> Verdict:
    """The verdict; `problem` is the error of the latest refresh."""
    if snapshot is None:
        return Verdict(CRITICAL, "The cluster does not answer", _unreachable(problem))
    reasons = sorted(
        (*_unreachable(problem), *_brokers(snapshot), *_partitions(snapshot), *_disks(snapshot)),
        key=lambda each: _ORDER.index(each.level),
    )
    if problem is not None:
        return Verdict(CRITICAL, "The cluster does not answer any more", tuple(reasons))
    if not reasons:
        return Verdict(OK, "All brokers answer and all partitions are in sync", ())
    level = reasons[0].level
    summary = "Data is unavailable or at risk" if level == CRITICAL else "Needs attention"
    return Verdict(level, summary, tuple(reasons))


def _unreachable(problem: str | None) -> tuple[Reason, ...]:
    return () if problem is None else (Reason(CRITICAL, problem),)


def _brokers(snapshot: ClusterSnapshot) -> Iterator[Reason]:
    if snapshot.controller_id < 0:
        yield Reason(
            CRITICAL, "There is no controller: topics and leaders cannot change", "/brokers"
        )
    for broker in snapshot.brokers:
        if broker.fenced:
            text = f"Broker {broker.id} ({broker.address}) is fenced: it is down or disconnected"
            yield Reason(CRITICAL, text, f"/brokers/{broker.id}")
        elif broker.problem is not None:
            text = f"Broker {broker.id} ({broker.address}) does not answer: {broker.problem}"
            yield Reason(CRITICAL, text, f"/brokers/{broker.id}")


def _partitions(snapshot: ClusterSnapshot) -> Iterator[Reason]:
    offline = [topic for topic in snapshot.topics.values() if topic.offline]
    if offline:
        text = f"{_partition_count(snapshot.offline)} without a leader in {_names(offline)}"
        yield Reason(CRITICAL, text, "/topics?state=offline&internal=1")
    lacking = [topic for topic in snapshot.topics.values() if topic.under_replicated]
    if lacking:
        number = _partition_count(snapshot.under_replicated)
        text = f"{number} under-replicated in {_names(lacking)}"
        yield Reason(WARNING, text, "/topics?state=under-replicated&internal=1")


def _disks(snapshot: ClusterSnapshot) -> Iterator[Reason]:
    for broker in snapshot.brokers:
        for directory in broker.log_dirs:
            where = f"{directory.path} of broker {broker.id}"
            path = f"/brokers/{broker.id}"
            if directory.problem is not None:
                yield Reason(CRITICAL, f"{where} is offline: {directory.problem}", path)
                continue
            used = used_share(directory)
            if used is not None and used >= FULL_WARNING:
                level = CRITICAL if used >= FULL_CRITICAL else WARNING
                yield Reason(level, f"The disk of {where} is {used:.0%} full", path)


def used_share(directory: LogDirState) -> float | None:
    """How full the volume is, from 0 to 1."""
    total, usable = directory.total_bytes, directory.usable_bytes
    return None if not total or usable is None else 1 - usable / total


def _partition_count(number: int) -> str:
    return f"{number:,} partition{'s' * (number != 1)}"


def _names(topics: Sequence[TopicState]) -> str:
    names = ", ".join(topic.name for topic in topics[:MAX_NAMES])
    more = len(topics) - MAX_NAMES
    return f"{names} and {more:,} more" if more > 0 else names
