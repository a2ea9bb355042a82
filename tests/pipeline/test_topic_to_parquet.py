"""Every record of a topic is written to a Parquet folder once, despite crashes."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.runner.step_loop import LoopStep
from headrace.pipeline.sinks.parquet_sink import ParquetSink
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, WrittenFile
from support.pipelines.delta_pipeline import MakePipeline, Record, Send
from support.pipelines.outputs import Row, all_parquet_rows, letters, parquet_rows
from support.wire.topics import MakeTopic

pytestmark = pytest.mark.xdist_group("spark")

BROKEN = b'{"id": '


class Killed(BaseException):
    """Simulates a killed process: no handler catches it."""


def orders(partition: int, numbers: range) -> list[Record]:
    return [
        (partition, None, json.dumps({"id": number, "amount": number / 2}).encode())
        for number in numbers
    ]


def places(rows: list[Row]) -> list[tuple[int, int]]:
    return sorted((row["p"], row["o"]) for row in rows)


def test_every_record_is_written_once_and_a_restart_continues(
    tmp_path: Path, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic, folder = make_topic(2), tmp_path / "folder"
    sink = {"format": "parquet", "table": str(folder), "partition_by": ["p"]}
    pipeline = make_pipeline(topic, on_error="skip", sink=sink)
    send(topic, [*orders(0, range(20)), (0, None, BROKEN), *orders(1, range(10))])
    assert pipeline.run() == []
    send(topic, orders(1, range(10, 15)))
    assert pipeline.run() == []
    wanted = [*((0, at) for at in range(20)), *((1, at) for at in range(15))]
    assert places(all_parquet_rows(folder)) == wanted
    ends = {TopicPartition(topic, 0): 21, TopicPartition(topic, 1): 15}
    assert pipeline.log.committed(pipeline.flow.id) == ends


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_around_the_manifest_leaves_folder_and_dead_letters_exact(
    moment: str,
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    new_name: Callable[[], str],
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, aside, folder = make_topic(1), new_name(), tmp_path / "folder"
    send(topic, [*orders(0, range(5)), (0, None, BROKEN)])
    pipeline = make_pipeline(
        topic,
        sink={"format": "parquet", "table": str(folder)},
        dead_letter={"topic": aside},
    )
    commit = ParquetSink.commit

    def killed(
        self: ParquetSink, batch: BatchInfo, written: Sequence[WrittenFile]
    ) -> CommittedBatch:
        if moment == "after":
            commit(self, batch, written)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(ParquetSink, "commit", killed)
        with pytest.raises(Killed):
            pipeline.loop().step()
    assert len(parquet_rows(folder)) == (5 if moment == "after" else 0)
    send(topic, [(0, None, BROKEN), *orders(0, range(7, 9))])
    again = pipeline.loop()
    while again.step() is not LoopStep.CAUGHT_UP:
        pass
    wanted = [(0, at) for at in (0, 1, 2, 3, 4, 7, 8)]
    assert places(parquet_rows(folder)) == wanted
    assert places(all_parquet_rows(folder)) == wanted  # leftovers of the crash are removed
    assert [each.offset for each in letters(bootstrap, aside)] == [5, 6]
    assert pipeline.log.committed(pipeline.flow.id) == {TopicPartition(topic, 0): 9}
