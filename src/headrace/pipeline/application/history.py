"""The run history: an event log in a Delta table, in the flow's checkpoint directory.

One commit for each batch would make a table of tiny files. So each event is first appended to a
spool file, as one line. A full spool becomes one commit. The commit carries the spool's number.
After a crash, this number shows whether a spool is already in the table.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from headrace.pipeline.runner.events import Event, EventKind

SPOOL_EVENTS: Final = 500
APP: Final = "headrace/history"
UNWRITTEN: Final = frozenset({EventKind.IDLE, EventKind.BEGUN})
SCHEMA: Final = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("flow", pa.string()),
        ("kind", pa.string()),
        ("batch_id", pa.int64()),
        ("offsets_read", pa.int64()),
        ("rows", pa.int64()),
        ("bad", pa.string()),
        ("dead_letters", pa.int64()),
        ("skipped", pa.int64()),
        ("seconds", pa.float64()),
        ("phases", pa.string()),
        ("version", pa.string()),
        ("offsets", pa.string()),
        ("lag", pa.string()),
        ("message", pa.string()),
    ]
)
_AS_TEXT: Final = ("bad", "phases", "offsets", "lag")


class RunHistory:
    """The events of one flow, in `folder`. The table is `folder/events`."""

    def __init__(self, folder: Path, *, spool_events: int = SPOOL_EVENTS) -> None:
        self._folder = folder
        self._table = folder / "events"
        self._spool_events = spool_events
        self._spooled = 0
        self._file: TextIO | None = None
        self._number = 0

    def __enter__(self) -> "RunHistory":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._fold_all()
        self._open_next()
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()
        self._fold_all()

    def add(self, event: Event) -> None:
        """Writes the event to the spool file.

        A write error loses the event but does not stop the run.
        """
        if event.kind in UNWRITTEN or self._file is None:
            return
        try:
            self._file.write(json.dumps({**event.facts(), "time_s": event.time_s}) + "\n")
            self._file.flush()
            self._spooled += 1
            if self._spooled >= self._spool_events:
                self._close()
                self._fold_all()
                self._open_next()
        except OSError:
            return

    def events(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the last events, oldest first, with the keys of `Event.facts`."""
        found = [*self._folded(), *(_row(fact) for fact in self._spooled_facts())]
        found.sort(key=lambda row: row["time"])
        return found if limit is None else found[-limit:]

    # --- the spool ------------------------------------------------------------------------------

    def _open_next(self) -> None:
        self._number = max(self._last_folded(), *(_number(each) for each in self._spools()), 0) + 1
        self._file = (self._folder / f"spool-{self._number:08}.jsonl").open("a", encoding="utf-8")
        self._spooled = 0

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spools(self) -> list[Path]:
        return sorted(self._folder.glob("spool-*.jsonl"))

    def _spooled_facts(self) -> Iterator[dict[str, Any]]:
        folded = self._last_folded()
        for spool in self._spools():
            if _number(spool) > folded:
                yield from _facts(spool)

    # --- the table ------------------------------------------------------------------------------

    def _fold_all(self) -> None:
        """Commits all spools to the table. If a commit fails, the remaining spools are kept."""
        try:
            for spool in self._spools():
                self._fold(spool)
        except (DeltaError, OSError):
            return

    def _fold(self, spool: Path) -> None:
        if _number(spool) > self._last_folded():
            rows = [_row(fact) for fact in _facts(spool)]
            if rows:
                write_deltalake(
                    str(self._table),
                    pa.Table.from_pylist(rows, schema=SCHEMA),
                    mode="append",
                    commit_properties=CommitProperties(
                        app_transactions=[Transaction(APP, _number(spool))]
                    ),
                )
        spool.unlink(missing_ok=True)

    def _last_folded(self) -> int:
        if not DeltaTable.is_deltatable(str(self._table)):
            return 0
        return DeltaTable(str(self._table)).transaction_version(APP) or 0

    def _folded(self) -> list[dict[str, Any]]:
        if not DeltaTable.is_deltatable(str(self._table)):
            return []
        rows: list[dict[str, Any]] = DeltaTable(str(self._table)).to_pyarrow_table().to_pylist()
        return rows


def _number(spool: Path) -> int:
    return int(spool.stem.rpartition("-")[2])


def _facts(spool: Path) -> Iterator[dict[str, Any]]:
    for line in spool.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the incomplete last line of a run that was killed


def _row(fact: dict[str, Any]) -> dict[str, Any]:
    row = {name: fact.get(name) for name in SCHEMA.names}
    for name in _AS_TEXT:
        row[name] = json.dumps(fact.get(name) or {})
    for name in ("offsets_read", "rows", "dead_letters", "skipped"):
        row[name] = fact.get(name) or 0
    micros = pa.scalar(int(fact["time_s"] * 1_000_000), pa.timestamp("us", tz="UTC"))
    row["time"] = micros.as_py()
    row["message"] = fact.get("message") or ""
    row["version"] = fact.get("version") or ""
    return row
