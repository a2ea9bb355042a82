"""Every record of a topic is written to an Iceberg table once, despite crashes."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.runner.step_loop import LoopStep
from headrace.pipeline.sinks.iceberg_sink import IcebergSink
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, WrittenFile
from support.pipelines.delta_pipeline import MakePipeline, Record, Send
from support.pipelines.outputs import iceberg_rows, letters
from support.wire.topics import MakeTopic

pytestmark = pytest.mark.xdist_group("spark")

TABLE = "shop.orders"
BROKEN = b'{"id": '


class Killed(BaseException):
    """Simulates a killed process: no handler catches it."""


def orders(partition: int, numbers: range) -> list[Record]:
    return [
        (partition, None, json.dumps({"id": number, "amount": number / 2}).encode())
        for number in numbers
    ]


def places(warehouse: Path) -> list[tuple[int, int]]:
    return sorted((row["p"], row["o"]) for row in iceberg_rows(warehouse, TABLE))


def test_every_record_is_written_once_and_a_restart_continues(
    tmp_path: Path, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic, warehouse = make_topic(2), tmp_path / "warehouse"
    sink = {
        "format": "iceberg",
        "table": TABLE,
        "warehouse": str(warehouse),
        "partition_by": ["p"],
    }
    pipeline = make_pipeline(topic, on_error="skip", sink=sink)
    send(topic, [*orders(0, range(20)), (0, None, BROKEN), *orders(1, range(10))])
    assert pipeline.run() == []
    send(topic, orders(1, range(10, 15)))
    assert pipeline.run() == []
    assert places(warehouse) == [*((0, at) for at in range(20)), *((1, at) for at in range(15))]
    amounts = {row["id"]: row["amount"] for row in iceberg_rows(warehouse, TABLE)}
    assert amounts[14] == 7.0
    ends = {TopicPartition(topic, 0): 21, TopicPartition(topic, 1): 15}
    assert pipeline.log.committed(pipeline.flow.id) == ends


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_around_the_tables_commit_leaves_it_and_the_dead_letters_exact(
    moment: str,
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    new_name: Callable[[], str],
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, aside, warehouse = make_topic(1), new_name(), tmp_path / "warehouse"
    send(topic, [*orders(0, range(5)), (0, None, BROKEN)])
    pipeline = make_pipeline(
        topic,
        sink={"format": "iceberg", "table": TABLE, "warehouse": str(warehouse)},
        dead_letter={"topic": aside},
    )
    commit = IcebergSink.commit

    def killed(
        self: IcebergSink, batch: BatchInfo, written: Sequence[WrittenFile]
    ) -> CommittedBatch:
        if moment == "after":
            commit(self, batch, written)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(IcebergSink, "commit", killed)
        with pytest.raises(Killed):
            pipeline.loop().step()
    send(topic, [(0, None, BROKEN), *orders(0, range(7, 9))])
    again = pipeline.loop()
    while again.step() is not LoopStep.CAUGHT_UP:
        pass
    assert places(warehouse) == [(0, at) for at in (0, 1, 2, 3, 4, 7, 8)]
    assert [each.offset for each in letters(bootstrap, aside)] == [5, 6]
    assert pipeline.log.committed(pipeline.flow.id) == {TopicPartition(topic, 0): 9}


def test_a_merge_keeps_the_last_row_of_a_key_and_null_deletes(
    tmp_path: Path, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic, warehouse = make_topic(1), tmp_path / "warehouse"
    sink = {"format": "iceberg", "table": TABLE, "mode": "merge", "key": ["id"]}
    pipeline = make_pipeline(
        topic,
        source={
            "topics": [topic],
            "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
            "key": {"format": "json", "schema": "id BIGINT"},
        },
        transform=[],
        sink={**sink, "warehouse": str(warehouse)},
    )

    def change(number: int, amount: float | None) -> Record:
        value = None if amount is None else json.dumps({"id": number, "amount": amount}).encode()
        return (0, json.dumps({"id": number}).encode(), value)

    def amounts() -> dict[int, float]:
        return {row["id"]: row["amount"] for row in iceberg_rows(warehouse, TABLE)}

    send(topic, [change(1, 1), change(2, 1), change(1, 2), change(3, 1), change(3, None)])
    assert pipeline.run() == []
    assert amounts() == {1: 2.0, 2: 1.0}
    send(topic, [change(2, None), change(1, 3), change(4, None), change(4, 9)])
    assert pipeline.run() == []
    assert amounts() == {1: 3.0, 4: 9.0}
