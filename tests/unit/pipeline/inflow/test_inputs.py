"""Files and tables as sources: the next files, and the files already read."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.pipeline.core.line_digest import digest_of
from headrace.pipeline.inflow.batch_intent import BadIntent, BatchIntent, BatchIntents
from headrace.pipeline.inflow.delta_log import DeltaLog, NotAppended, added_files
from headrace.pipeline.inflow.input_files import (
    FoundFile,
    NoFolder,
    list_files,
    next_files,
    split_pattern,
)
from headrace.pipeline.inflow.inputs import DeltaTableInput, FolderInput
from headrace.pipeline.inflow.line_numbers import line_numbers, path_of_uri
from headrace.pipeline.spec.sources import DeltaSource, FileSource


def put(folder: Path, name: str, at_s: int) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    os.utime(path, (at_s, at_s))
    return str(path)


def test_files_of_a_folder_are_read_oldest_first(tmp_path: Path) -> None:
    late = put(tmp_path, "a.json", 200)
    early = put(tmp_path, "day=1/b.json", 100)
    put(tmp_path, "_tmp/c.json", 50)
    put(tmp_path, ".d.json", 50)
    assert [each.path for each in list_files(str(tmp_path), None)] == [early, late]
    assert [each.path for each in list_files(late, None)] == [late]
    with pytest.raises(NoFolder, match=r"there is no folder .*nothing"):
        list_files(str(tmp_path / "nothing"), None)


def test_lines_are_found_by_content_and_equal_lines_get_different_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf{"id": 1}\r\n\n  {"id": \n\xff\r{"id": \nx')
    wanted = [digest_of(each) for each in (b'{"id": ', b"\xff", b"nothing of the kind")]
    found = line_numbers(str(file), None, wanted)
    assert [list(found[each]) for each in wanted] == [[3, 5], [4], []]
    assert line_numbers(str(tmp_path / "gone.json"), None, wanted) == {}
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert line_numbers(str(packed), None, wanted) == found


def test_file_paths_are_reported_unescaped() -> None:
    assert path_of_uri("file:///in/a%20b%23.json") == "/in/a b#.json"
    assert path_of_uri("s3a://lake/a%20b.json") == "s3a://lake/a b.json"


def test_a_pattern_selects_files(tmp_path: Path) -> None:
    wanted = put(tmp_path, "in/a.json", 1)
    put(tmp_path, "in/a.csv", 1)
    found = list_files(f"{tmp_path}/in/*.json", None)
    assert [each.path for each in found] == [wanted]
    assert split_pattern("s3://b/in/*/x-?.json") == ("s3://b/in", "*/x-?.json")
    assert split_pattern("in") == ("in", "")
    assert split_pattern("*.json") == (".", "*.json")


def test_a_batch_is_limited_by_files_and_bytes_but_never_empty() -> None:
    found = [FoundFile(at, f"f{at}", 10) for at in range(5)]
    assert next_files(found, {"f0"}, 2, 1000) == ["f1", "f2"]
    assert next_files(found, set(), 9, 25) == ["f0", "f1"]
    assert next_files(found, set(), 9, 1) == ["f0"]
    assert next_files(found, {each.path for each in found}, 9, 1000) == []


def test_the_files_of_a_batch_are_known_after_a_restart(tmp_path: Path) -> None:
    first, second = BatchIntent(0, ("a", "b")), BatchIntent(1, ("c",), through=4, versions=(3,))
    intents = BatchIntents(tmp_path)
    intents.save(first)
    intents.save(second)
    again = BatchIntents(tmp_path)
    assert again.get(1) == second
    assert list(again.until(1)) == [first, second]
    assert again.get(2) is None


def test_file_lists_of_earlier_releases_are_read_except_versions(tmp_path: Path) -> None:
    BatchIntents(tmp_path).save(BatchIntent(0, ("a",), through=4, versions=(4,)))
    file = tmp_path / "inflow" / "00000000.json"
    written = json.loads(file.read_text())
    del written["versions"]
    file.write_text(json.dumps(written))
    found = BatchIntents(tmp_path).get(0)
    assert found == BatchIntent(0, ("a",), through=4)
    assert list(found.versioned()) == []


def test_nothing_is_read_if_the_list_of_read_files_is_missing(tmp_path: Path) -> None:
    intents = BatchIntents(tmp_path)
    intents.save(BatchIntent(1, ("c",)))
    with pytest.raises(BadIntent, match="Restore the checkpoint"):
        list(intents.until(1))
    (tmp_path / "inflow" / "00000000.json").write_text("{")
    with pytest.raises(BadIntent, match="cannot be read"):
        BatchIntents(tmp_path).get(0)


def test_a_folder_gives_each_file_once(tmp_path: Path) -> None:
    one, two = put(tmp_path, "1.json", 1), put(tmp_path, "2.json", 2)
    folder = FolderInput(FileSource(files=str(tmp_path), format="json", max_files_per_batch=1))
    first = folder.next_intent(0, [])
    assert first == BatchIntent(0, (one,))
    second = folder.next_intent(1, [first])
    assert second == BatchIntent(1, (two,))
    assert folder.next_intent(2, [first, second]) is None


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three versions, of which the last only rewrites files."""
    location = str(tmp_path / "table")
    for number in range(2):
        write_deltalake(location, pa.table({"id": [number]}), mode="append")
    DeltaTable(location).optimize.compact()
    return location


def test_versions_add_files_and_compaction_adds_none(table: str) -> None:
    log = DeltaLog(table, None)
    assert log.versions() == [0, 1, 2]
    assert [len(log.added(version)) for version in log.versions()] == [1, 1, 0]
    assert all(Path(file.path).stat().st_size == file.size for file in log.added(0))


def test_a_table_is_read_version_by_version(table: str) -> None:
    source = DeltaTableInput(DeltaSource(delta=table, max_versions_per_batch=1))
    first = source.next_intent(0, [])
    assert first is not None
    assert (len(first.files), first.through, first.versions) == (1, 0, (0,))
    second = source.next_intent(1, [first])
    third = source.next_intent(2, [first, second or first])
    assert third is not None
    assert (third.files, third.through) == ((), 2)
    assert source.next_intent(3, [third]) is None


def test_a_large_version_takes_several_batches(tmp_path: Path) -> None:
    location = str(tmp_path / "large")
    rows = pa.table({"id": list(range(6)), "day": list("abcabc")})
    write_deltalake(location, rows, partition_by=["day"])
    write_deltalake(location, rows, mode="append")
    source = DeltaTableInput(DeltaSource(delta=location, max_bytes_per_batch=1))
    intents: list[BatchIntent] = []
    while (found := source.next_intent(len(intents), intents)) is not None:
        intents.append(found)
    assert [(each.through, each.within) for each in intents] == [
        (-1, 1),
        (-1, 2),
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    log = DeltaLog(location, None)
    there = [file.path for version in (0, 1) for file in log.added(version)]
    assert [path for each in intents for path in each.files] == there


def test_latest_starts_after_the_existing_versions(table: str) -> None:
    source = DeltaTableInput(DeltaSource(delta=table, start="latest"))
    first = source.next_intent(0, [])
    assert first == BatchIntent(0, (), through=2)
    write_deltalake(table, pa.table({"id": [9]}), mode="append")
    following = source.next_intent(1, [first])
    assert following is not None
    assert (len(following.files), following.through) == (1, 3)


def test_a_version_that_deletes_rows_cannot_be_streamed(table: str) -> None:
    DeltaTable(table).delete("id = 1")
    with pytest.raises(NotAppended, match="--to 4"):
        DeltaLog(table, None).added(3)


def test_missing_versions_and_deletion_vectors_are_rejected(table: str, tmp_path: Path) -> None:
    (Path(table) / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(NotAppended, match="no longer in its log"):
        DeltaTableInput(DeltaSource(delta=table)).next_intent(0, [])
    with pytest.raises(NotAppended, match="no Delta table"):
        DeltaTableInput(DeltaSource(delta=str(tmp_path / "none"))).next_intent(0, [])
    vector = {"add": {"path": "x", "dataChange": True, "deletionVector": {"a": 1}}}
    with pytest.raises(NotAppended, match="deletion vectors"):
        added_files(0, [json.dumps(vector)])


def rewrite_log(table: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the first version, as other writers of Delta tables do."""
    entry = Path(table) / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in entry.read_text().split("\n") if line]
    for action in actions:
        change(action)
    entry.write_text("\n".join(json.dumps(action) for action in actions))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_with_column_mapping_is_rejected(tmp_path: Path, mode: str) -> None:
    # Its files use other column names: with the table's names all values would be null.
    table = str(tmp_path / "table")
    write_deltalake(table, pa.table({"id": [1]}))

    def map_columns(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            own = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"] = own
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {
                "delta.columnMapping.mode": mode,
                "delta.columnMapping.maxColumnId": "1",
            }

    rewrite_log(table, map_columns)
    with pytest.raises(NotAppended, match="maps its columns to other names"):
        DeltaLog(table, None).schema()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("A1/part.parquet", "folders that are not named for its partitions"),
        ("part.parquet", "folders that are not named for its partitions"),
        ("file:///elsewhere/day=a/part.parquet", "shallow clone"),
    ],
)
def test_files_whose_folders_do_not_name_their_partitions_are_rejected(
    path: str, said: str
) -> None:
    # Delta allows it. Spark takes the values from the folders, and would find nulls.
    add = {"path": path, "dataChange": True, "size": 1, "partitionValues": {"day": "a"}}
    with pytest.raises(NotAppended, match=said):
        added_files(0, [json.dumps({"add": add})])


def test_any_text_in_a_tables_log_is_read(tmp_path: Path) -> None:
    # Each of these ends a line to Python, and none to Delta.
    table, texts = str(tmp_path / "table"), ["a\u2028b", "a\x85b", "a b/c=%", "ü"]
    rows = pa.table({"id": list(range(len(texts))), "p": texts})
    write_deltalake(table, rows, partition_by=["p"])
    assert len(DeltaLog(table, None).added(0)) == len(texts)
