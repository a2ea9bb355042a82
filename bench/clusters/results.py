"""Results of cluster runs, to and from JSON, and their comparison with the better peer."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import Machine
from bench.results import metric_of
from bench.workload import Metric


@dataclass(frozen=True, slots=True)
class ClusterFigure:
    """One metric: the samples of every contestant, ours first."""

    metric: Metric
    samples: Mapping[str, Sequence[float]]

    def median(self, contestant: str) -> float | None:
        samples = self.samples.get(contestant)
        return statistics.median(samples) if samples else None

    @property
    def ratio(self) -> float | None:
        """Our figure over the better peer's."""
        ours, *theirs = (self.median(name) for name in self.samples)
        known = [value for value in theirs if value is not None]
        if ours is None or not known:
            return None
        best = max(known) if self.metric.better == "higher" else min(known)
        return ours / best if best else None

    @property
    def met(self) -> bool | None:
        goal = self.metric.goal
        reached = self.median(next(iter(self.samples)))
        if goal is not None and goal.of == "ratio":
            reached = self.ratio
        if goal is None or reached is None:
            return None
        return reached >= goal.bound if self.metric.better == "higher" else reached <= goal.bound


@dataclass(frozen=True, slots=True)
class ClusterResult:
    name: str
    title: str
    figures: tuple[ClusterFigure, ...]
    load_average: float


@dataclass(frozen=True, slots=True)
class ClusterResults:
    machine: Machine
    date: str
    contestants: tuple[str, ...]
    workloads: tuple[ClusterResult, ...]


def save(results: ClusterResults, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(results), indent=1) + "\n")


def load(path: Path) -> ClusterResults:
    raw = json.loads(path.read_text())
    return ClusterResults(
        machine=Machine(**raw["machine"]),
        date=raw["date"],
        contestants=tuple(raw["contestants"]),
        workloads=tuple(
            ClusterResult(
                entry["name"],
                entry["title"],
                tuple(
                    ClusterFigure(metric_of(figure["metric"]), figure["samples"])
                    for figure in entry["figures"]
                ),
                entry["load_average"],
            )
            for entry in raw["workloads"]
        ),
    )


def merge(runs: Sequence[ClusterResults], order: Sequence[str]) -> ClusterResults:
    """All samples of all runs in one table, with contestants in that order."""
    workloads: dict[str, ClusterResult] = {}
    for run in runs:
        for entry in run.workloads:
            before = workloads.get(entry.name)
            workloads[entry.name] = entry if before is None else _joined(before, entry)
    contestants = tuple(name for name in order if any(name in run.contestants for run in runs))
    return ClusterResults(
        runs[-1].machine,
        runs[-1].date,
        contestants,
        tuple(_ordered(entry, contestants) for entry in workloads.values()),
    )


def _joined(before: ClusterResult, after: ClusterResult) -> ClusterResult:
    earlier = {figure.metric.key: figure for figure in before.figures}
    later = {figure.metric.key: figure for figure in after.figures}
    figures = []
    for key in {**earlier, **later}:
        parts = [figures[key] for figures in (earlier, later) if key in figures]
        samples: dict[str, list[float]] = {}
        for part in parts:
            for name, values in part.samples.items():
                samples.setdefault(name, []).extend(values)
        figures.append(ClusterFigure(parts[-1].metric, samples))
    load_average = max(before.load_average, after.load_average)
    return ClusterResult(after.name, after.title, tuple(figures), load_average)


def _ordered(entry: ClusterResult, contestants: Sequence[str]) -> ClusterResult:
    figures = tuple(
        ClusterFigure(figure.metric, {name: figure.samples.get(name, ()) for name in contestants})
        for figure in entry.figures
    )
    return ClusterResult(entry.name, entry.title, figures, entry.load_average)
