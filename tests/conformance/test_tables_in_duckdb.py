"""Tables that pipelines wrote, opened by DuckDB's own readers of Delta and Iceberg."""

import json
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from headrace.pipeline.sinks.iceberg_sink import open_catalog
from support.pipelines.lake_tables import ICEBERG_NAME, STAGES, LakeTable, Order

QUERY = Path(__file__).parent / "duckdb_extensions" / "query.py"
VERSION = "1.5.5"
"""The newest for which all the extensions are on PyPI."""
NEEDED = ("duckdb", "duckdb-extension-delta", "duckdb-extension-iceberg", "duckdb-extension-avro")
TIMEOUT_S = 300


def in_duckdb(kind: str, places: list[str]) -> list[list[Order]]:
    """The rows at each place."""
    needed = [word for name in NEEDED for word in ("--with", f"{name}=={VERSION}")]
    uv = str(Path(sys.executable).with_name("uv"))
    ended = subprocess.run(
        [uv, "run", "--quiet", "--no-project", *needed, "python", str(QUERY), kind, *places],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [
        [Order(id_, day, Decimal(amount), note) for id_, day, amount, note in rows]
        for rows in json.loads(ended.stdout)
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_delta_tables_open_in_duckdbs_delta_scan(tmp_path: Path) -> None:
    table = LakeTable("delta", tmp_path / "table")
    places, wanted = [], []
    for stage, rows in table.stages():
        place = tmp_path / stage  # a table may be moved as a whole
        shutil.copytree(table.path, place)
        places.append(str(place))
        wanted.append(rows)
    assert len(places) == len(STAGES)
    assert in_duckdb("delta", places) == wanted


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_iceberg_tables_open_in_duckdbs_iceberg_scan(tmp_path: Path) -> None:
    table = LakeTable("iceberg", tmp_path)
    places, wanted = [], []
    for _, rows in table.stages():
        found = open_catalog(str(tmp_path), {}).load_table(ICEBERG_NAME)
        places.append(found.metadata_location)
        wanted.append(rows)
    assert len(places) == len(STAGES)
    assert in_duckdb("iceberg", places) == wanted
