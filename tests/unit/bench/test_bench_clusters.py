"""Clusters are compared with the better peer; separate runs are merged."""

from pathlib import Path

import pytest
from bench.clusters import report
from bench.clusters.command import WORKLOADS, catalogue, parse
from bench.clusters.results import ClusterFigure, ClusterResult, ClusterResults, load, merge, save
from bench.machine import Machine
from bench.workload import Goal, Metric

MACHINE = Machine("a processor", 2, 24.0, "Linux", "ext4", "3.11", "17", "2.0", "4.3.1")
RATE = Metric("rate", "rate", "msg/s", "higher", Goal("ratio", 1.0))
GAP = Metric("gap", "kill -9 leader", "ms", "lower", Goal("value", 1000))


def figure(metric: Metric, **samples: list[float]) -> ClusterFigure:
    names = {"headrace": "headrace", "kafka": "kafka", "kafka_zk": "kafka-zk"}
    return ClusterFigure(metric, {names[name]: values for name, values in samples.items()})


def run(
    *figures: ClusterFigure, contestants: tuple[str, ...] = ("headrace", "kafka")
) -> ClusterResults:
    result = ClusterResult("failover", "Time without acks", figures, 0.5)
    return ClusterResults(MACHINE, "2026-11-17", contestants, (result,))


def test_the_better_peer_has_the_higher_rate_or_the_shorter_time() -> None:
    rates = figure(RATE, headrace=[90, 110], kafka=[80], kafka_zk=[125])
    times = figure(GAP, headrace=[500], kafka=[10_000], kafka_zk=[8000])
    assert (rates.ratio, rates.met) == (0.8, False)
    assert (times.ratio, times.met) == (0.0625, True)


def test_a_peer_without_samples_is_ignored() -> None:
    alone = figure(RATE, headrace=[100], kafka=[], kafka_zk=[50])
    assert (alone.ratio, alone.met) == (2.0, True)
    assert figure(RATE, headrace=[], kafka=[1.0]).met is None


def test_separate_runs_are_merged(tmp_path: Path) -> None:
    first = run(figure(GAP, headrace=[400], kafka=[9000]))
    save(first, tmp_path / "first.json")
    second = run(figure(GAP, kafka_zk=[7000], headrace=[600]), contestants=("kafka-zk", "headrace"))
    joined = merge([load(tmp_path / "first.json"), second], ("headrace", "kafka", "kafka-zk"))
    assert joined.contestants == ("headrace", "kafka", "kafka-zk")
    (gap,) = joined.workloads[0].figures
    assert gap.samples == {"headrace": [400, 600], "kafka": [9000], "kafka-zk": [7000]}
    assert (gap.median("headrace"), gap.met) == (500, True)


def test_the_page_shows_medians_extremes_and_missed_goals() -> None:
    measured = run(figure(GAP, headrace=[1000, 1400, 1200], kafka=[9000]))
    page = report.document(measured, data_name="data.json", notes="A note.")
    assert "1,200 ms (1,000..1,400; 3) | 9,000 ms | <= 1000 ms | 0.13x | NO" in page
    assert "A note." in page


def test_each_workload_can_be_selected_by_name() -> None:
    assert tuple(each.name for each in catalogue(parse([]))) == WORKLOADS


def test_an_unknown_workload_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "throughput"])
    assert "invalid choice: 'throughput'" in capsys.readouterr().err
