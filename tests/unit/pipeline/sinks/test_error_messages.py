"""Errors say what failed, where and why, in the operating system's words."""

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.table_sink import SinkError, TableSettings
from headrace.pipeline.spec import SpecErrors
from support.cli.command import Cli

SPEC = """
pipeline: orders_to_lake
source: {topics: [orders], value: {format: json}}
sink: {format: delta, table: table}
"""


def test_a_table_that_cannot_be_created_names_the_place_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    where = str(tmp_path / "file" / "table")
    with pytest.raises(SinkError) as caught:
        DeltaSink(TableSettings(where)).prepare(pa.schema([("id", pa.int64())]))
    assert str(caught.value) == f"cannot create {where}: not a directory"


def test_validate_names_the_pipeline(tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(SPEC)
    ended = Cli("", tmp_path)("pipeline", "validate", str(spec), "--no-spark")
    assert f"{spec} is valid (pipeline: orders_to_lake)" in ended.stdout.replace("\n", "")


def test_a_secret_in_plain_text_names_the_variable_to_use() -> None:
    with pytest.raises(SpecErrors) as caught:
        parse_spec(SPEC + "kafka: {sasl.password: hunter2}\n")
    said = str(caught.value)
    assert "sasl.password must not be in plain text; use ${SASL_PASSWORD}" in said
    assert "hunter2" not in said
