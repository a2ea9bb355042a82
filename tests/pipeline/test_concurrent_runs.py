"""Two unaware runs of one pipeline neither lose nor duplicate rows or dead letters.

Each run has its own checkpoint directory, as on two machines, so no lock separates them.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headrace.pipeline.dead_letters.headers import facts_of
from headrace.pipeline.producer import ProducerFenced
from headrace.pipeline.runner.flow_loop import AnotherRun, FlowLoop
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, WrittenFile
from headrace.testing.external import ExternalBroker
from support.pipelines.delta_pipeline import MakePipeline, Pipeline, Send
from support.wire.topics import MakeTopic

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(600)]

DEADLINE_S = 120.0


class Two:
    """Two runs of a pipeline and their results."""

    def __init__(self, make: MakePipeline, topic: str, name: str, home: Path) -> None:
        self.aside = f"{name}.dlq"
        self._pipelines = [
            make(
                topic,
                pipeline=name,
                dead_letter={"topic": self.aside},
                checkpoint=str(home / f"checkpoint-{number}"),
            )
            for number in range(2)
        ]

    @property
    def first(self) -> Pipeline:
        return self._pipelines[0]

    def loops(self) -> list[FlowLoop]:
        return [each.loop() for each in self._pipelines]

    def letters(self, bootstrap: str, count: int) -> list[int]:
        """The offsets of the records."""
        broker = ExternalBroker(bootstrap)
        broker.headrace.consume(self.aside, count, read_committed=True)
        found = broker.headrace.consume(self.aside, read_committed=True)
        broker.close()
        return sorted(facts_of(each.headers).offset for each in found)


@pytest.fixture
def two(
    make_topic: MakeTopic, make_pipeline: MakePipeline, new_name: Callable[[], str], tmp_path: Path
) -> tuple[Two, str]:
    topic = make_topic(1)
    return Two(make_pipeline, topic, new_name(), tmp_path), topic


def records(first: int, count: int, *bad: int) -> list[tuple[int, None, bytes]]:
    return [
        (0, None, b"{" if at in bad else json.dumps({"id": at, "amount": 1}).encode())
        for at in range(first, first + count)
    ]


def test_a_run_whose_batch_another_run_shortened_stops_without_loss_or_duplicates(
    two: tuple[Two, str], send: Send, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run plans a batch; the other plans a longer one of the same number, dead-letters its
    bad record, and finds the shorter batch in the table."""
    runs, topic = two
    send(topic, records(0, 5))
    short, long = runs.loops()
    planned, may_commit, done = (threading.Event() for _ in range(3))
    commit = DeltaSink.commit

    def in_turn(
        self: DeltaSink, batch: BatchInfo, written: Sequence[WrittenFile]
    ) -> CommittedBatch:
        if threading.current_thread() is slow:
            planned.set()
            assert may_commit.wait(DEADLINE_S)
        else:
            may_commit.set()
            assert done.wait(DEADLINE_S)
        return commit(self, batch, written)

    def run_short() -> None:
        short.step()
        done.set()

    slow = threading.Thread(target=run_short)
    monkeypatch.setattr(DeltaSink, "commit", in_turn)
    slow.start()
    assert planned.wait(DEADLINE_S)
    send(topic, records(5, 5, 7))
    with pytest.raises(AnotherRun, match="runs once"):
        long.step()
    slow.join(DEADLINE_S)
    monkeypatch.setattr(DeltaSink, "commit", commit)
    assert runs.first.places() == [(0, at) for at in range(5)]
    send(topic, records(10, 2, 11))
    assert runs.first.run() == []
    assert runs.first.places() == [(0, at) for at in range(11) if at != 7]
    assert runs.letters(bootstrap, 2) == [7, 11]


def test_a_run_that_finds_another_runs_dead_letters_for_its_batch_stops(
    two: tuple[Two, str], send: Send, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise dead letters of records that only this run has read would be missing."""
    runs, topic = two
    send(topic, records(0, 5, 2))
    short, long = runs.loops()
    commit = DeltaSink.commit

    def killed(self: DeltaSink, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        raise ConnectionError("this process is gone")

    prepared = FlowLoop._prepared_schemas

    def planned(self: FlowLoop, plan: object) -> object:
        if self is long:
            # After it has planned, the other run takes the id and writes its dead letter.
            monkeypatch.setattr(DeltaSink, "commit", killed)
            with pytest.raises(ConnectionError):
                short.step()
            monkeypatch.setattr(DeltaSink, "commit", commit)
        return prepared(self, plan)  # type: ignore[arg-type]

    monkeypatch.setattr(FlowLoop, "_prepared_schemas", planned)
    short_plan = short._plan

    def five(log: object, held: object) -> object:
        plan = short_plan(log, held)  # type: ignore[arg-type]
        return plan._replace(ranges=tuple(each._replace(end=5) for each in plan.ranges))

    monkeypatch.setattr(short, "_plan", five)
    send(topic, records(5, 5, 7))
    with pytest.raises(ProducerFenced, match="runs once"):
        long.step()
    monkeypatch.undo()
    assert runs.first.run() == []
    assert runs.first.places() == [(0, at) for at in range(10) if at not in (2, 7)]
    assert runs.letters(bootstrap, 2) == [2, 7]
