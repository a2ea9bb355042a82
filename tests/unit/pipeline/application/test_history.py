"""The event log keeps every event once, whenever the run was killed."""

from pathlib import Path

from deltalake import DeltaTable

from headrace.client.results import TopicPartition
from headrace.pipeline.application.history import RunHistory
from headrace.pipeline.runner.events import Event, EventKind


def batch(number: int) -> Event:
    return Event(
        "flow",
        EventKind.BATCH,
        time_s=1_700_000_000.0 + number,
        batch_id=number,
        rows=number * 10,
        bad={"NotJson": 1},
        phases={"write": 0.5},
        seconds=0.5,
        version=str(number),
        offsets={TopicPartition("t", 0): number},
    )


def ids(history: RunHistory) -> list[int | None]:
    return [row["batch_id"] for row in history.events()]


def test_events_round_trip(tmp_path: Path) -> None:
    with RunHistory(tmp_path) as history:
        history.add(batch(3))
        history.add(Event("flow", EventKind.IDLE))
        history.add(Event("flow", EventKind.FAILED, message="no"))
    first, last = RunHistory(tmp_path).events()
    assert (first["batch_id"], first["rows"], first["version"]) == (3, 30, "3")
    assert (first["bad"], first["offsets"]) == ('{"NotJson": 1}', '{"t": {"0": 3}}')
    assert (last["kind"], last["message"], last["batch_id"]) == ("failed", "no", None)


def test_many_events_need_few_commits(tmp_path: Path) -> None:
    with RunHistory(tmp_path, spool_events=4) as history:
        for number in range(10):
            history.add(batch(number))
        assert ids(history) == list(range(10))
    assert ids(RunHistory(tmp_path)) == list(range(10))
    assert [row["batch_id"] for row in RunHistory(tmp_path).events(2)] == [8, 9]
    assert DeltaTable(str(tmp_path / "events")).version() == 2


def test_a_killed_run_neither_loses_nor_duplicates_events(tmp_path: Path) -> None:
    killed = RunHistory(tmp_path)
    killed.__enter__()
    killed.add(batch(0))
    killed._close()  # as at the end of a process
    (spool,) = tmp_path.glob("spool-*.jsonl")
    content = spool.read_text() + '{"half a li'
    spool.write_text(content)
    with RunHistory(tmp_path) as history:
        history.add(batch(1))
    spool.write_text(content)  # killed after the commit, before the spool was removed
    assert ids(RunHistory(tmp_path)) == [0, 1]
    with RunHistory(tmp_path) as history:
        assert ids(history) == [0, 1]
