"""Rows of tables, read by DuckDB's own extensions: `query.py delta|iceberg PLACE...`.

Runs outside the project's environment: the extensions come from PyPI as wheels, and only for
versions of DuckDB that are older than the one the project is tested with elsewhere.
"""

import importlib
import json
import sys
from pathlib import Path

import duckdb

# Iceberg's manifests are Avro files.
NEEDED = {"delta": ("delta",), "iceberg": ("avro", "iceberg")}


def main() -> None:
    kind, *places = sys.argv[1:]
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in NEEDED[kind]:
        package = Path(importlib.import_module(f"duckdb_extension_{name}").__file__ or "").parent
        (file,) = package.glob(f"extensions/*/{name}.duckdb_extension")
        connection.sql(f"LOAD '{file}'")
    found = []
    for place in places:
        scan = f"{kind}_scan('{place}')"
        columns = [row[0] for row in connection.sql(f"DESCRIBE SELECT * FROM {scan}").fetchall()]
        note = "note" if "note" in columns else "NULL"
        sql = f"SELECT id, day, amount::VARCHAR, {note} FROM {scan} ORDER BY id"
        found.append(connection.sql(sql).fetchall())
    json.dump(found, sys.stdout)


main()
