"""Results survive JSON, goals are judged by the median, page and chart show the results."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from bench import results
from bench.__main__ import why_not_publish
from bench.chart import chart, times_better
from bench.machine import Machine
from bench.publication import NOTES, PAGE, publish
from bench.report import document, number, table
from bench.results import Figure, Results, WorkloadResult
from bench.workload import Goal, Metric
from bench.workloads.catalogue import catalogue

RATE = Metric("rate", "rate", "msg/s", "higher", Goal("ratio", 1.05), headline=True)
COST = Metric("cpu", "broker CPU", "s", "lower", Goal("ratio", 0.6), headline=True)
START = Metric("start", "first answer", "ms", "lower", Goal("value", 300.0), headline=True)
MACHINE = Machine("A processor", 2, 8.0, "Linux 6", "ext4", "3.11", "17", "2.0.2", "4.3.1")


def sample_results() -> Results:
    figures = (
        Figure(RATE, (2e6, 2.2e6, 2.4e6), (1e6, 1.1e6, 1.2e6)),
        Figure(COST, (0.3, 0.3, 0.3), (0.6, 0.6, 0.6)),
        Figure(START, (310.0, 320.0, 330.0), (3000.0, 3100.0, 3200.0)),
    )
    workload = WorkloadResult("produce", "Produce <100 B>", figures, 0.1)
    return Results(MACHINE, "2026-01-01", ("headrace", "kafka"), {"pairs": 3}, (workload,))


def test_results_round_trip_through_json(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    results.save(sample_results(), path)
    assert results.load(path) == sample_results()


def test_a_later_run_replaces_only_the_workloads_it_repeats() -> None:
    first = sample_results()
    other = replace(first.workloads[0], name="consume")
    again = replace(first.workloads[0], title="again")
    merged = results.merge(
        [replace(first, workloads=(first.workloads[0], other)), replace(first, workloads=(again,))]
    )
    assert [(each.name, each.title) for each in merged.workloads] == [
        ("produce", "again"),
        ("consume", other.title),
    ]


def test_runs_made_differently_do_not_share_a_table() -> None:
    full = sample_results()
    with pytest.raises(results.MixedRunsError):
        results.merge([full, replace(full, settings={"pairs": 1})])


@pytest.mark.parametrize(
    ("settings", "contestants"),
    [
        ({"pairs": 7, "scale": 0.1}, ("headrace", "kafka")),
        ({"pairs": 2, "scale": 1.0}, ("headrace", "kafka")),
        ({"pairs": 7, "scale": 1.0}, ("kafka", "kafka")),
        ({"pairs": 7, "scale": 1.0}, ("headrace", "kafka")),  # most workloads are missing
    ],
)
def test_misleading_results_are_not_published(
    settings: dict[str, float], contestants: tuple[str, str]
) -> None:
    run = replace(sample_results(), settings=settings, contestants=contestants)
    assert why_not_publish(run, complete=True)


def test_a_full_run_of_every_workload_is_published() -> None:
    part = sample_results().workloads[0]
    every = tuple(replace(part, name=each.name) for each in catalogue(scale=1, big_log_gb=10))
    run = replace(sample_results(), settings={"pairs": 7, "scale": 1.0}, workloads=every)
    assert why_not_publish(run, complete=True) == ""


def test_a_goal_is_judged_by_the_median_in_its_own_direction() -> None:
    rate, cost, start = sample_results().workloads[0].figures
    assert (rate.met, cost.met, start.met) == (True, True, False)
    assert replace(rate, metric=replace(RATE, goal=None)).met is None


def test_a_cost_of_half_is_twice_as_good() -> None:
    better = times_better(sample_results().workloads[0].figures[1])
    assert better is not None
    assert better.median == pytest.approx(2.0)


def test_the_table_marks_a_missed_goal() -> None:
    lines = table(sample_results()).splitlines()
    assert len(lines) == 4
    assert lines[1].endswith("yes")
    assert lines[3].endswith("NO")


def test_the_page_names_the_machine_the_chart_and_each_figure() -> None:
    page = document(sample_results(), chart_name="c.svg", data_name="d.json")
    for expected in ("A processor", "(c.svg)", "(d.json)", "2.20 M msg/s", "2.00x", "3 pairs"):
        assert expected in page


def test_the_page_counts_the_goals_and_names_the_missed_ones() -> None:
    page = document(sample_results(), chart_name="c.svg", data_name="d.json")
    assert "Goals met: 2 of 3." in page
    assert "- missed: Produce <100 B>: first answer" in page


def test_hand_written_notes_survive_the_next_publication(tmp_path: Path) -> None:
    (tmp_path / NOTES).write_text("Measured on a quiet evening.\n")
    for _ in range(2):
        publish(tmp_path, brokers=sample_results())
        page = (tmp_path / PAGE).read_text()
        assert page.count("## Notes on these figures\n\nMeasured on a quiet evening.\n") == 1


def test_the_chart_is_well_formed_and_has_a_bar_for_each_headline() -> None:
    drawing = ET.fromstring(chart(sample_results()))
    bars = drawing.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 1 + 3  # the ground and three bars


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1_234_567, "1.23 M"),
        (123_456, "123 k"),
        (12_345, "12.3 k"),
        (3_012.4, "3,012"),
        (0.25, "0.25"),
    ],
)
def test_numbers_keep_three_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_workload_names_and_metric_keys_are_unique() -> None:
    workloads = catalogue(scale=1, big_log_gb=10)
    assert len({each.name for each in workloads}) == len(workloads)
    for each in workloads:
        assert len({metric.key for metric in each.metrics}) == len(each.metrics)
