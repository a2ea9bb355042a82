"""The pipelines' benchmark: run order, figures, orders, ages, the page's section."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench import results
from bench.machine import Machine
from bench.pipelines import orders
from bench.pipelines.command import why_not_publish
from bench.pipelines.latency import ages_ms
from bench.pipelines.rounds import (
    DEFAULTS,
    OURS,
    SIDES,
    TUNED,
    Rate,
    Sample,
    order,
    own_figure,
    rate_figures,
    run_rounds,
)
from bench.pipelines.section import section
from bench.pipelines.workloads import catalogue
from bench.publication import PAGE, PIPELINE_NOTES, publish
from bench.report import table
from bench.results import Figure, Results, WorkloadResult
from bench.workload import Goal, Metric

MACHINE = Machine("A processor", 2, 8.0, "Linux 6", "ext4", "3.11", "17", "2.0.2", "4.3.1")
BATCH = Rate("b", "batch", 1.2)
SETTINGS = {"rounds": 5, "scale": 1.0, "on_kafka": 0.0}


def sample_results(*, ours: float = 2e6, tuned: float = 1e6) -> Results:
    rates = {OURS: ours, TUNED: tuned, DEFAULTS: 5e5}
    samples = {side: [Sample(rate, 1.0)] * 3 for side, rate in rates.items()}
    age = Metric("p50", "age, median", "s", "lower", Goal("value", 2.0))
    workloads = (
        WorkloadResult("batch", "Topic to noop", rate_figures(BATCH, samples), 0.1),
        WorkloadResult("freshness", "Pipeline", (own_figure(age, [1.5]),), 0.1),
    )
    return Results(MACHINE, "2026-01-01", ("headrace", "connector"), SETTINGS, workloads)


def test_no_contestant_always_follows_the_same_one() -> None:
    assert order(0) == SIDES
    assert order(1) == SIDES[::-1]


def test_warm_ups_run_and_are_not_counted() -> None:
    ran: list[str] = []

    def run(side: str) -> Sample:
        ran.append(side)
        return Sample(float(len(ran)), 1.0)

    samples = run_rounds(run, 2, warm_ups=1)
    assert len(ran) == 10
    assert {side: len(kept) for side, kept in samples.items()} == dict.fromkeys(SIDES, 2)
    assert min(sample.rate for kept in samples.values() for sample in kept) == 5.0


def test_both_sessions_have_run_equally_often_before_the_rounds() -> None:
    ran: list[str] = []

    def run(side: str) -> Sample:
        ran.append(side)
        return Sample(1.0, 1.0)

    run_rounds(run, 0, warm_ups=3)
    assert ran.count("headrace") == len(ran) / 2


def test_the_goal_compares_with_the_tuned_connector() -> None:
    tuned, defaults, cpu = sample_results().workloads[0].figures
    assert tuned.metric.goal == Goal("ratio", 1.2)
    assert tuned.met is True
    assert defaults.metric.goal is None
    assert cpu.metric.better == "lower"
    slower = sample_results(ours=1.1e6).workloads[0].figures[0]
    assert slower.met is False


def test_a_figure_without_a_peer_is_judged_by_its_value_and_has_no_ratio() -> None:
    metric = Metric("p50", "age", "s", "lower", Goal("value", 2.0))
    assert own_figure(metric, [2.5]).met is False
    assert own_figure(metric, [1.5]).met is True
    assert own_figure(metric, [1.5]).ratio is None
    assert "age" in table(sample_results())


def test_every_thousandth_order_is_broken_and_all_others_parse() -> None:
    made = list(orders.orders(3000))
    bad = []
    for number, value in enumerate(made):
        try:
            assert json.loads(value)["id"] == number
        except ValueError:
            bad.append(number)
    assert len(bad) == orders.broken(3000) == 3
    assert list(orders.orders(3000)) == made  # every run gets the same data


def test_the_age_of_a_row_is_its_commits_time_minus_the_time_it_was_sent(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    pq.write_table(pa.table({"id": [1000, 2000, 2500]}), tmp_path / "a.parquet")
    (log / "0.json").write_text('{"metaData": {}}\n')
    commit = log / "1.json"
    commit.write_text('{"add": {"path": "a.parquet"}}\n{"txn": {}}\n')
    os.utime(commit, ns=(0, 3_000_000_000))
    assert ages_ms(tmp_path, since_ms=2000) == [1000.0, 500.0]


def test_the_section_names_missed_goals() -> None:
    missed = section(sample_results(ours=1e6), data_name="data.json", notes="A busy day.")
    assert "missed: Topic to noop: batch, tuned" in missed
    assert "A busy day." in missed
    assert "Goals met: 2 of 2" in section(sample_results(), data_name="data.json")


def test_the_page_keeps_the_sections_that_are_not_measured_again(tmp_path: Path) -> None:
    rate = Figure(Metric("rate", "rate", "msg/s", "higher"), (2.0,), (1.0,))
    brokers = Results(
        MACHINE,
        "2026-01-01",
        ("headrace", "kafka"),
        {"pairs": 7},
        (WorkloadResult("produce", "Produce", (rate,), 0.1),),
    )
    (tmp_path / PIPELINE_NOTES).write_text("Said by hand.")
    publish(tmp_path, brokers=brokers)
    assert "## Pipelines" not in (tmp_path / PAGE).read_text()
    publish(tmp_path, pipelines=sample_results())
    both = (tmp_path / PAGE).read_text()
    assert "| Produce |" in both
    assert "| Topic to noop |" in both
    assert "Said by hand." in both
    publish(tmp_path, brokers=brokers)
    assert (tmp_path / PAGE).read_text() == both


def test_figures_without_a_peer_round_trip_through_json(tmp_path: Path) -> None:
    results.save(sample_results(), tmp_path / "results.json")
    assert results.load(tmp_path / "results.json") == sample_results()


@pytest.mark.parametrize("name", ["rounds", "scale", "on_kafka"])
def test_small_runs_and_those_on_another_broker_are_not_published(name: str) -> None:
    every = tuple(WorkloadResult(each.name, each.title, (), 0.1) for each in catalogue(scale=1))
    full = replace(sample_results(), workloads=every)
    assert why_not_publish(full, complete=True) == ""
    assert why_not_publish(replace(full, workloads=every[1:]), complete=True)
    wrong = {"rounds": 1, "scale": 0.05, "on_kafka": 1.0}
    changed = replace(full, settings={**SETTINGS, name: wrong[name]})
    assert why_not_publish(changed, complete=True)
