"""Results as data: the figures of a run, to and from JSON. Pure except for the two file calls."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import Machine
from bench.pairing import Pairs
from bench.stats import Spread, pair_ratios, spread
from bench.workload import Goal, Metric, Workload


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of one workload: the samples of both contestants, pair by pair.

    `theirs` is empty if there is no counterpart.
    """

    metric: Metric
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> Spread | None:
        ratios = pair_ratios(self.ours, self.theirs) if self.theirs else []
        return spread(ratios) if ratios else None

    @property
    def met(self) -> bool | None:
        """Whether the median meets the goal; None without a goal."""
        goal = self.metric.goal
        if goal is None:
            return None
        if goal.of == "value":
            reached = spread(self.ours).median
        elif self.ratio is None:
            return None
        else:
            reached = self.ratio.median
        return reached >= goal.bound if self.metric.better == "higher" else reached <= goal.bound


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """`load_average` is the machine's load before this workload."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    load_average: float


class MixedRunsError(Exception):
    """Runs under different conditions cannot share a table."""


@dataclass(frozen=True, slots=True)
class Results:
    machine: Machine
    date: str
    contestants: tuple[str, str]
    settings: Mapping[str, float]
    workloads: tuple[WorkloadResult, ...]


def result_of(workload: Workload, pairs: Pairs, load_average: float) -> WorkloadResult:
    figures = tuple(
        Figure(
            metric,
            tuple(sample[metric.key] for sample in pairs.first),
            tuple(sample[metric.key] for sample in pairs.second),
        )
        for metric in workload.metrics
    )
    return WorkloadResult(workload.name, workload.title, figures, load_average)


def merge(runs: Iterable[Results]) -> Results:
    """One set of results from several runs: a later run replaces the workloads it repeats."""
    every = list(runs)
    if not every:
        raise ValueError("nothing to merge")
    alike = {(repr(run.settings), run.contestants, run.machine) for run in every}
    if len(alike) > 1:
        raise MixedRunsError("These runs differ in settings, contestants or machine.")
    workloads = {workload.name: workload for run in every for workload in run.workloads}
    last = every[-1]
    return Results(
        last.machine, last.date, last.contestants, last.settings, tuple(workloads.values())
    )


def save(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(results), indent=1) + "\n")


def load(path: Path) -> Results:
    raw = json.loads(path.read_text())
    return Results(
        machine=Machine(**raw["machine"]),
        date=raw["date"],
        contestants=(raw["contestants"][0], raw["contestants"][1]),
        settings=raw["settings"],
        workloads=tuple(
            WorkloadResult(
                entry["name"],
                entry["title"],
                tuple(
                    Figure(
                        metric_of(figure["metric"]), tuple(figure["ours"]), tuple(figure["theirs"])
                    )
                    for figure in entry["figures"]
                ),
                entry["load_average"],
            )
            for entry in raw["workloads"]
        ),
    )


def metric_of(raw: Mapping[str, object]) -> Metric:
    fields = dict(raw)
    goal = fields.pop("goal")
    return Metric(**fields, goal=Goal(**goal) if isinstance(goal, dict) else None)  # type: ignore[arg-type]
