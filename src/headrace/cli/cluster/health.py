"""The verdict on a cluster: healthy, degraded or unavailable, and why. Pure.

unavailable   some clients fail now: a partition has no leader, its leader does not answer, or too
              few replicas are in sync for `acks=all`
degraded      all clients are served, but something has failed: a broker, a disk, the metadata
              store, or a replica that is not in sync
"""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from headrace.cli.cluster.broker_probe import Reports
from headrace.cli.cluster.out_of_sync import Adding, is_full
from headrace.cli.cluster.status import Overview
from headrace.cli.exit_codes import ExitCode
from headrace.cli.output import counted
from headrace.cli.units import byte_size, duration
from headrace.client.results import TopicPartition

SHOWN_PARTITIONS: Final = 3
SENTENCE_PROBLEMS: Final = 2


class Verdict(StrEnum):
    """The state of a cluster, as its clients see it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"

    @property
    def exit_code(self) -> ExitCode:
        return _EXIT_CODES[self]


_EXIT_CODES: Final = {
    Verdict.HEALTHY: ExitCode.OK,
    Verdict.DEGRADED: ExitCode.DEGRADED,
    Verdict.UNAVAILABLE: ExitCode.UNAVAILABLE,
}


class Problem(NamedTuple):
    """One thing that is wrong, and the verdict that it leads to."""

    verdict: Verdict
    text: str


class Health(NamedTuple):
    """The problems of a cluster, the most severe first, causes before symptoms."""

    problems: tuple[Problem, ...]

    @property
    def verdict(self) -> Verdict:
        return self.problems[0].verdict if self.problems else Verdict.HEALTHY

    @property
    def reason(self) -> str:
        if not self.problems:
            return "every partition has a leader, and every replica is in sync"
        return "; ".join(problem.text for problem in self.problems[:SENTENCE_PROBLEMS])

    @property
    def sentence(self) -> str:
        return f"{self.verdict}: {self.reason}"


def assess(
    overview: Overview,
    reports: Reports,
    *,
    under_min_isr: Collection[TopicPartition] = (),
    adding: Adding | None = None,
) -> Health:
    """The verdict on the cluster; a replica that a reassignment is adding is no problem."""
    found = [
        *_broker_problems(overview, reports),
        *_directory_problems(overview, reports),
        *_metadata_problems(overview, reports),
        *_partition_problems(overview, under_min_isr, adding or {}),
    ]
    severity = list(Verdict)
    found.sort(key=lambda problem: -severity.index(problem.verdict))
    return Health(tuple(found))


def _broker_problems(overview: Overview, reports: Reports) -> Iterator[Problem]:
    live = {broker.id for broker in overview.cluster.live}
    down = [id_ for id_ in overview.loads if id_ not in live]
    if down:
        yield Problem(Verdict.DEGRADED, f"{_brokers(down)} down")
    for id_, report in reports.items():
        if report.failure:
            leads = overview.loads[id_].leads
            also = f" and leads {counted(leads, 'partition')}" if leads else ""
            verdict = Verdict.UNAVAILABLE if leads else Verdict.DEGRADED
            yield Problem(verdict, f"broker {id_} does not answer{also}")


def _directory_problems(overview: Overview, reports: Reports) -> Iterator[Problem]:
    for id_, report in reports.items():
        full = [each for each in report.directories if is_full(each)]
        online = [each for each in report.directories if each.problem is None]
        refuses = len(full) == len(online) and overview.loads[id_].leads
        for directory in report.directories:
            where = f"of broker {id_}"
            if directory.problem is not None:
                text = f"log directory {directory.path} {where} is offline"
                yield Problem(Verdict.DEGRADED, text)
            elif directory in full:
                free = byte_size(directory.usable_bytes)
                of = byte_size(directory.total_bytes)
                text = f"the disk of {directory.path} {where} is full ({free} of {of} free)"
                yield Problem(Verdict.UNAVAILABLE if refuses else Verdict.DEGRADED, text)


def _metadata_problems(overview: Overview, reports: Reports) -> Iterator[Problem]:
    lost = {
        id_: report.store.lost_s
        for id_, report in reports.items()
        if report.store is not None and report.store.lost_s is not None
    }
    if lost:
        has = "has" if len(lost) == 1 else "have"
        since = duration(max(lost.values()))
        text = (
            f"{_names(lost)} {has} had no connection to ZooKeeper for {since}: leaders still "
            "serve, but metadata cannot change"
        )
        yield Problem(Verdict.DEGRADED, text)
    if overview.controller is None:
        text = "there is no controller: no leader can be elected, and metadata cannot change"
        yield Problem(Verdict.DEGRADED, text)


def _partition_problems(
    overview: Overview, under_min_isr: Collection[TopicPartition], adding: Adding
) -> Iterator[Problem]:
    total = sum(1 for _ in overview.partitions())
    without = overview.without_leader
    if without:
        has = "has" if len(without) == 1 else "have"
        text = f"{counted(len(without), 'partition')} {has} no leader: {_some(without)}"
        yield Problem(Verdict.UNAVAILABLE, text)
    refusing = [each for each in under_min_isr if each not in without]
    if refusing:
        verb = "refuses" if len(refusing) == 1 else "refuse"
        text = (
            f"{counted(len(refusing), 'partition')} {verb} writes with acks=all (fewer in-sync "
            f"replicas than min.insync.replicas): {_some(refusing)}"
        )
        yield Problem(Verdict.UNAVAILABLE, text)
    lacking = [
        each
        for each, info in overview.under_replicated.items()
        if any(id_ not in adding.get(each, ()) for id_ in set(info.replicas) - set(info.isr))
    ]
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        text = f"{len(lacking):,} of {counted(total, 'partition')} {verb} under-replicated"
        yield Problem(Verdict.DEGRADED, text)


def _names(ids: Collection[int]) -> str:
    listed = ", ".join(map(str, sorted(ids)))
    return f"broker {listed}" if len(ids) == 1 else f"brokers {listed}"


def _brokers(ids: Collection[int]) -> str:
    return f"{_names(ids)} {'is' if len(ids) == 1 else 'are'}"


def _some(partitions: Iterable[TopicPartition]) -> str:
    named = list(map(str, partitions))
    shown = ", ".join(named[:SHOWN_PARTITIONS])
    more = len(named) - SHOWN_PARTITIONS
    return f"{shown} and {more:,} more" if more > 0 else shown
