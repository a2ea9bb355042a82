"""Finds JSON fields that an inferred schema does not have, while records are read.

A field at the top level of the record becomes a column. The schema grows, and the batch is read
again before any part of it is committed. Some fields cannot become columns: fields inside objects
and arrays, and names that differ from a column only in case. They are counted, so that the run can
report them.

Tasks write their findings into the batch's staging folder, which the workers and the driver share.
A field without content (null, an empty object or array) has no type, and nothing is lost without
it. It is ignored.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from headrace.pipeline.formats.errors import FormatError
from headrace.pipeline.formats.schema import ArrayOf, Column, Primitive, StructOf, Type, check_names
from headrace.pipeline.formats.schema_inference import infer_schema

MAX_SAMPLES: Final = 1000
"""The most records per task for inferring the types of new columns."""
MAX_SAMPLE_CHARACTERS: Final = 100_000
MAX_NAMES: Final = 1000
"""The most names that a task counts. Records may have an unlimited number of names."""
MAX_COLUMNS: Final = 1000
"""The largest inferred schema.

Names that are data, such as ids, would add columns without limit.
"""
MAX_SHOWN: Final = 5
_FILE: Final = "new-fields-*.json"


@dataclass(frozen=True, slots=True)
class FieldWatch:
    """The known columns, and the folder for reports of other fields. Picklable."""

    columns: StructOf
    folder: str

    def open(self) -> "WatchedFields":
        if not Path(self.folder).is_dir():
            raise FormatError(
                f"{self.folder} is not there on this worker: on a cluster, the checkpoint "
                "directory must be in a folder that the driver and all workers share under the "
                "same path"
            )
        return WatchedFields(self)


@dataclass(slots=True)
class WatchedFields:
    """The new fields that one task has found."""

    watch: FieldWatch
    counts: Counter[str] = field(default_factory=Counter)
    samples: list[Mapping[str, object]] = field(default_factory=list)

    def add_records(self, values: pa.Array) -> None:
        """Counts the unknown fields in these records, and keeps samples of their values."""
        known = {each.name for each in self.watch.columns.columns}
        for text in values.drop_null().to_pylist():
            record = _object(text)
            names = set(_unknown(record, self.watch.columns, ""))
            for name in names:
                if name in self.counts or len(self.counts) < MAX_NAMES:
                    self.counts[name] += 1
            new = {name: record[name] for name in record.keys() & names if name not in known}
            if new and len(self.samples) < MAX_SAMPLES and len(text) <= MAX_SAMPLE_CHARACTERS:
                self.samples.append(new)

    def close(self) -> None:
        if self.counts:
            file = Path(self.watch.folder) / _FILE.replace("*", uuid.uuid4().hex)
            content = {"counts": dict(self.counts), "samples": self.samples}
            file.write_text(json.dumps(content), encoding="utf-8")


class NewFields(NamedTuple):
    """The new fields of a batch. `counts` has the number of records by the path of the field."""

    counts: Mapping[str, int]
    samples: Sequence[Mapping[str, object]]

    def grown(self, columns: StructOf) -> StructOf:
        """Returns the columns and the new ones, up to `MAX_COLUMNS`."""
        texts = (json.dumps(each).encode() for each in self.samples)
        found = infer_schema(texts)
        taken = {each.name.lower() for each in columns.columns}
        new = [] if found is None else [each for each in found.columns if _may_be_column(each.name)]
        new = [each for each in new if each.name.lower() not in taken]
        room = max(0, MAX_COLUMNS - len(columns.columns))
        return StructOf((*columns.columns, *new[:room]))

    def unread(self) -> str:
        """Returns a message that names the fields without a column."""
        most = sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))
        named = ", ".join(f"{name} ({count:,} records)" for name, count in most[:MAX_SHOWN])
        more = f" and {len(most) - MAX_SHOWN:,} more" if len(most) > MAX_SHOWN else ""
        return (
            f"fields that are in no column and were left out: {named}{more}. Give the source a "
            "schema that has them, or take them from _record.value in SQL"
        )


def found_in(folder: Path) -> NewFields | None:
    """Returns the reports of all tasks. Returns None if there are none."""
    counts: Counter[str] = Counter()
    samples: list[Mapping[str, object]] = []
    for file in sorted(folder.glob(_FILE)):
        held = json.loads(file.read_text(encoding="utf-8"))
        counts.update(held["counts"])
        samples += held["samples"]
    return NewFields(counts, samples) if counts else None


def _object(text: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _unknown(value: object, kind: Type, path: str) -> Iterator[str]:
    """Yields the paths of fields that are not in the type and have content."""
    match kind:
        case StructOf(columns) if isinstance(value, dict):
            types = {each.name: each.type for each in columns}
            for name, inner in value.items():
                at = f"{path}.{name}" if path else name
                if name in types:
                    yield from _unknown(inner, types[name], at)
                elif inner is not None and inner not in ({}, []):
                    yield at
        case ArrayOf(item) if isinstance(value, list):
            for inner in value:
                yield from _unknown(inner, item, f"{path}[]")


def _may_be_column(name: str) -> bool:
    try:
        check_names(StructOf((Column(name, Primitive("string")),)))
    except FormatError:
        return False
    return bool(name)
