"""Topics, files and Delta tables are written to topics once, even if a batch is repeated."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from headrace.pipeline.application.application import Application, RunSettings
from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.dead_letters.headers import facts_of
from headrace.pipeline.producer import TransactionalProducer
from headrace.testing.external import ExternalBroker
from headrace.testing.helper import Headrace
from support.pipelines.delta_pipeline import MakePipeline, Send
from support.wire.topics import MakeTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(600)]


class Killed(BaseException):
    """Simulates a killed process: no handler catches it."""


@pytest.fixture
def helper(bootstrap: str) -> "Iterator[Headrace]":
    broker = ExternalBroker(bootstrap)
    yield broker.headrace
    broker.close()


@pytest.fixture
def run(
    bootstrap: str, spark: "SparkSession", tmp_path: Path
) -> Callable[[dict[str, object]], None]:
    def run(spec: dict[str, object]) -> None:
        whole = {"checkpoint": str(tmp_path / "checkpoint"), **spec, "trigger": "once"}
        settings = RunSettings(kafka={"bootstrap.servers": bootstrap})
        failed = Application(parse_spec(json.dumps(whole)), settings, spark=spark).run()
        assert failed == []

    return run


def ids(helper: Headrace, topic: str, count: int) -> list[int]:
    helper.consume(topic, count, read_committed=True)
    got = helper.consume(topic, read_committed=True)
    return sorted(json.loads(each.value or b"")["id"] for each in got)


def values(helper: Headrace, topic: str, count: int) -> list[str]:
    helper.consume(topic, count, read_committed=True)
    return [(each.value or b"").decode() for each in helper.consume(topic, read_committed=True)]


def test_a_topic_is_copied_to_a_topic_once_despite_a_crash_around_the_commit(
    helper: Headrace,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, out = make_topic(2), make_topic(3)
    send(source, [(at % 2, None, b'{"id": %d, "amount": 1}' % at) for at in range(40)])
    pipeline = make_pipeline(
        source,
        transform=[{"sql": "SELECT id, amount FROM source"}],
        sink={"format": "topic", "topic": out, "key": ["id"]},
    )
    commit = TransactionalProducer.commit

    def killed_before(self: TransactionalProducer) -> None:
        raise Killed

    def killed_after(self: TransactionalProducer) -> None:
        commit(self)
        raise Killed

    monkeypatch.setattr(TransactionalProducer, "commit", killed_before)
    with pytest.raises(Killed):
        pipeline.loop().step()
    monkeypatch.setattr(TransactionalProducer, "commit", killed_after)
    with pytest.raises(Killed):
        pipeline.loop().run()
    monkeypatch.setattr(TransactionalProducer, "commit", commit)
    send(source, [(0, None, b'{"id": 40, "amount": 1}')])
    assert pipeline.run() == []
    pipeline.close()
    assert ids(helper, out, 41) == list(range(41))


def test_records_keep_their_order_and_oversized_ones_are_dead_lettered(
    helper: Headrace, make_pipeline: MakePipeline, send: Send, new_name: Callable[[], str]
) -> None:
    source = helper.create_topic(partitions=1)
    out = helper.create_topic(partitions=3, configs={"max.message.bytes": 20_000})
    letters = f"{source}.dlq"
    large = Random(1).randbytes(30_000).hex().encode()
    records = [(0, b"k%d" % (at % 5), large if at == 7 else b"%d" % at) for at in range(3000)]
    send(source, records)
    pipeline = make_pipeline(
        source,
        source={"topics": [source], "value": {"format": "raw"}, "key": {"format": "raw"}},
        transform=[{"sql": "SELECT key, value FROM source"}],
        sink={"format": "topic", "topic": out, "value": "raw"},
        dead_letter={"topic": letters},
    )
    assert pipeline.run() == []
    got = helper.consume(out, 2999, read_committed=True)
    for key in {each.key for each in got}:
        numbers = [int(each.value or b"") for each in got if each.key == key]
        assert numbers == sorted(numbers)
    assert sorted(int(each.value or b"") for each in got) == [at for at in range(3000) if at != 7]
    (letter,) = helper.consume(letters, 1, read_committed=True)
    facts = facts_of(letter.headers)
    assert (letter.key, letter.value, facts.offset) == (b"k2", large, 7)
    assert facts.error == "TooLarge"


def test_each_line_of_a_file_is_written_to_a_topic_once(
    helper: Headrace,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    run: Callable[[dict[str, object]], None],
    tmp_path: Path,
) -> None:
    out, folder = make_topic(2), tmp_path / "in"
    folder.mkdir()
    spec: dict[str, object] = {
        "pipeline": new_name(),
        "source": {"files": str(folder), "format": "json", "max_files_per_batch": 1},
        "transform": [{"sql": "SELECT id FROM source WHERE id >= 0"}],
        "sink": {"format": "topic", "topic": out, "key": ["id"]},
    }
    for number in range(2):
        lines = [json.dumps({"id": number * 10 + at, "other": "x"}) for at in range(10)]
        (folder / f"{number}.json").write_text("\n".join(lines))
    run(spec)
    assert ids(helper, out, 20) == list(range(20))
    (folder / "2.json").write_text('{"id": 20, "other": "y"}\n{"id": -1, "other": "z"}')
    run(spec)
    run(spec)
    assert ids(helper, out, 21) == list(range(21))


def test_new_rows_of_a_delta_table_are_written_to_a_topic_once(
    helper: Headrace,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    run: Callable[[dict[str, object]], None],
    tmp_path: Path,
) -> None:
    out, table = make_topic(1), str(tmp_path / "lake")
    spec: dict[str, object] = {
        "pipeline": new_name(),
        "source": {"delta": table},
        "sink": {"format": "topic", "topic": out},
    }
    rows = pa.table({"id": list(range(6)), "day": ["a", "b"] * 3})
    write_deltalake(table, rows, partition_by=["day"])
    run(spec)
    write_deltalake(table, pa.table({"id": [6], "day": ["c"]}), mode="append")
    run(spec)
    assert ids(helper, out, 7) == list(range(7))
    values = [json.loads(each.value or b"") for each in helper.consume(out, read_committed=True)]
    assert {value["day"] for value in values} == {"a", "b", "c"}


def test_a_text_partition_column_of_a_delta_table_stays_text(
    helper: Headrace,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    run: Callable[[dict[str, object]], None],
    tmp_path: Path,
) -> None:
    # Folder names are the values: with type inference 007 would become a number.
    out, table = make_topic(1), str(tmp_path / "lake")
    write_deltalake(table, pa.table({"id": [0, 1], "p": ["007", "12"]}), partition_by=["p"])
    run(
        {
            "pipeline": new_name(),
            "source": {"delta": table},
            "sink": {"format": "topic", "topic": out},
        }
    )
    assert sorted(values(helper, out, 2)) == ['{"id":0,"p":"007"}', '{"id":1,"p":"12"}']


def test_files_with_any_name_and_extra_columns_are_read_completely(
    helper: Headrace,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    run: Callable[[dict[str, object]], None],
    tmp_path: Path,
) -> None:
    # Spark would read these names as patterns; a column in only one file is read too.
    out, folder = make_topic(1), tmp_path / "in"
    folder.mkdir()
    names = ["a[1]", "a1", "b{x,y}", "st*r", "q?", "back\\slash", "with space", "per%20cent", "hä"]
    for at, name in enumerate(names):
        extra = {"last": ["x"]} if at == len(names) - 1 else {}
        pq.write_table(pa.table({"id": [at], **extra}), folder / f"{name}.parquet")
    run(
        {
            "pipeline": new_name(),
            "source": {"files": str(folder), "format": "parquet"},
            "sink": {"format": "topic", "topic": out},
        }
    )
    assert sorted(values(helper, out, len(names))) == [
        *(f'{{"id":{at},"last":null}}' for at in range(len(names) - 1)),
        f'{{"id":{len(names) - 1},"last":"x"}}',
    ]


def test_csv_quotes_follow_the_rfc_unless_options_change_them(
    helper: Headrace,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    run: Callable[[dict[str, object]], None],
    tmp_path: Path,
) -> None:
    found = []
    for at, options in enumerate(({}, {"escape": "\\"})):
        out, folder = make_topic(1), tmp_path / f"in{at}"
        folder.mkdir()
        text = '"a ""b"", c\\"' if not options else '"a \\"b\\", c"'
        (folder / "a.csv").write_text(f"id,note\n1,{text}\n")
        source = {"files": str(folder), "format": "csv", "schema": "id BIGINT, note STRING"}
        run(
            {
                "pipeline": new_name(),
                "source": {**source, "options": options},
                "sink": {"format": "topic", "topic": out},
                "checkpoint": str(tmp_path / f"checkpoint{at}"),
            }
        )
        found += [json.loads(value)["note"] for value in values(helper, out, 1)]
    assert found == ['a "b", c\\', 'a "b", c']


BAD_FILES = {
    "no json": (
        "json",
        b'{"id": 1}\n{"id": \n{"id": 3}\n',
        "line 2: NotJson: is not one JSON value",
    ),
    "text behind": ("json", b'\n{"id": 1} {"id": 2}\n', "line 2: NotJson: is not one JSON value"),
    "bracket behind": ("json", b'{"id": 1}],"x":[1', "line 1: NotJson: is not one JSON value"),
    "another type": (
        "json",
        b'{"id": 1}\n{"id": "x"}\n',
        "line 2: SchemaMismatch: does not fit the schema: id: expected bigint, found string.",
    ),
    "no utf-8": ("json", b'{"id": 1, "note": "\xff\xfe"}\n', "line 1: InvalidUtf8"),
    "no number": ("csv", b"id,note\n1,a\nx,b\n", "line 3: NotCsv: does not match the CSV schema"),
    "columns changed": ("csv", b"note,id\n1,2\n", "a.csv"),
    "too many": ("csv", b"id,note\n1,a,b\n", "line 2: NotCsv"),
    "no parquet": ("parquet", b"nonsense", "a.parquet cannot be read as Parquet"),
}


@pytest.mark.parametrize("case", list(BAD_FILES))
def test_an_unreadable_file_is_reported_with_its_line_and_not_written(
    case: str,
    helper: Headrace,
    bootstrap: str,
    tmp_path: Path,
    spark: "SparkSession",
    new_name: Callable[[], str],
) -> None:
    kind, content, said = BAD_FILES[case]
    folder, out = tmp_path / "in", helper.create_topic(partitions=1)
    folder.mkdir()
    file = folder / f"a.{kind}"
    file.write_bytes(content)
    schema = "id BIGINT, note STRING"
    spec = {
        "pipeline": new_name(),
        "source": {"files": str(folder), "format": kind, "schema": schema},
        "sink": {"format": "topic", "topic": out},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    settings = RunSettings(kafka={"bootstrap.servers": bootstrap}, until_caught_up=True)
    (failed,) = Application(parse_spec(json.dumps(spec)), settings, [], spark=spark).run()
    assert said in str(failed)
    assert str(file) in str(failed)
    assert "Correct the file or the spec" in str(failed)
    assert helper.consume(out, read_committed=True) == []
