"""JSON fields that an inferred schema does not have: found while records are read.

A field at the top of the record becomes a column: the schema grows, and the batch is read again
before anything of it is committed. Fields inside objects and arrays, and names that differ from a
column's in case only, cannot become columns. They are counted, so that the run can report them.

Tasks write what they find into the batch's staging folder, which workers and the driver share. A
field without content (null, an empty object or array) loses nothing and has no type: it is ignored.
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
"""Records of a task from which the types of new columns are inferred."""
MAX_SAMPLE_CHARACTERS: Final = 100_000
MAX_NAMES: Final = 1000
"""Names that a task counts: records may have names without end."""
MAX_COLUMNS: Final = 1000
"""To which an inferred schema grows. Names that are data, such as ids, would make endless ones."""
MAX_SHOWN: Final = 5
_FILE: Final = "new-fields-*.json"


@dataclass(frozen=True, slots=True)
class FieldWatch:
    """Picklable: the columns that are known, and where tasks report others."""

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
    """What one task has found."""

    watch: FieldWatch
    counts: Counter[str] = field(default_factory=Counter)
    samples: list[Mapping[str, object]] = field(default_factory=list)

    def look(self, values: pa.Array) -> None:
        """Records that may have other fields than the schema's."""
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
    """What the tasks of a batch have found; `counts` is records by the field's path."""

    counts: Mapping[str, int]
    samples: Sequence[Mapping[str, object]]

    def grown(self, columns: StructOf) -> StructOf:
        """The columns and the new ones, as far as there may be."""
        texts = (json.dumps(each).encode() for each in self.samples)
        found = infer_schema(texts)
        taken = {each.name.lower() for each in columns.columns}
        new = [] if found is None else [each for each in found.columns if _may_be_column(each.name)]
        new = [each for each in new if each.name.lower() not in taken]
        room = max(0, MAX_COLUMNS - len(columns.columns))
        return StructOf((*columns.columns, *new[:room]))

    def unread(self) -> str:
        """For a person: which fields are in no column."""
        most = sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))
        named = ", ".join(f"{name} ({count:,} records)" for name, count in most[:MAX_SHOWN])
        more = f" and {len(most) - MAX_SHOWN:,} more" if len(most) > MAX_SHOWN else ""
        return (
            f"fields that are in no column and were left out: {named}{more}. Give the source a "
            "schema that has them, or take them from _record.value in SQL"
        )


def found_in(folder: Path) -> NewFields | None:
    """What the tasks have reported; None if there is nothing."""
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
    """Paths of the fields that the type does not have, and that hold something."""
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
