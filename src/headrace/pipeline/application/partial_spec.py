"""Builds the valid part of a spec, so that its rules and steps can be checked in the same run.

A value with an error is removed. If the spec cannot do without it, a placeholder takes its place.
The paths of these values are `invalid`: errors that follow from them are not reported.
"""

from collections.abc import Collection
from pathlib import Path as FilePath
from typing import Final, NamedTuple

from pydantic import ValidationError

from headrace.pipeline.application.spec_field_errors import (
    MISSING_KEY,
    UNKNOWN_KEY,
    FieldError,
    field_error,
)
from headrace.pipeline.spec.pipeline import WITHOUT_RULES, PipelineSpec
from headrace.pipeline.spec.sinks import Topic
from headrace.pipeline.spec.sources import TopicSource
from headrace.pipeline.spec.spec_errors import SpecError
from headrace.pipeline.spec.spec_rules import Path, is_within, overlap
from headrace.pipeline.spec.yaml_text import Document

MAX_ROUNDS: Final = 50
"""A round removes at least one value. A spec that needs more rounds is not checked further."""

PLACEHOLDER_SOURCE: Final = TopicSource(topics=("placeholder",))
PLACEHOLDER_SINK: Final = Topic(topic="placeholder-sink")

_STEP: Final = "SELECT * FROM source"
_SOURCE: Final = {"topics": ["placeholder"]}
_SINK: Final = {"format": "topic", "topic": "placeholder-sink"}
_PLACEHOLDERS: Final[dict[str, object]] = {
    "pipeline": "placeholder",
    "source": _SOURCE,
    "sink": _SINK,
    "value": {"format": "json"},
    "table": "placeholder.table",
    "topic": "placeholder-topic",
    "files": "placeholder",
    "format": "json",
}
"""Values for keys that cannot be left out."""


class PartialSpec(NamedTuple):
    """A spec without its invalid values (None if no valid part is left), and its errors."""

    spec: PipelineSpec | None
    errors: list[SpecError]
    invalid: frozenset[Path]


def valid_part(
    data: object, document: Document, base: FilePath | None, invalid: Collection[Path]
) -> PartialSpec:
    """Validates the fields of `data`, and changes it. `invalid` has the errors known so far."""
    known, errors = set(invalid), list[SpecError]()
    for round_number in range(MAX_ROUNDS):
        try:
            context = {"base": base, WITHOUT_RULES: True}
            spec = PipelineSpec.model_validate(data, context=context)
            return PartialSpec(spec, errors, frozenset(known))
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=True)
        found = [field_error(each, document) for each in details]
        for each in found:
            if each.kind == UNKNOWN_KEY and each.suggestion:
                known.add((*each.path[:-1], each.suggestion))
        before = frozenset(known)
        for each in found:
            if not _is_consequence(each.path, before, is_first_round=round_number == 0):
                errors.append(each.error)
            known |= _repair(data, each)
    return PartialSpec(None, errors, frozenset(known))


def _is_consequence(path: Path, invalid: Collection[Path], *, is_first_round: bool) -> bool:
    """Later rounds also find sections that lack a value because it was removed."""
    related = is_within if is_first_round else overlap
    return any(related(path, each) for each in invalid)


def _repair(data: object, found: FieldError) -> set[Path]:
    """Removes or replaces an invalid value; returns the paths that are invalid from now on."""
    path = found.path
    if found.kind == UNKNOWN_KEY:
        _remove_value(data, path)
        return set()
    if path[-1:] == ("format",) and found.suggestion:
        _set_value(data, path, found.suggestion)
        return {path}
    if path[-1:] == ("format",) and path[-2:-1] in (("sink",), ("value",), ("key",)):
        path = path[:-1]
    while path:
        placeholder = _placeholder(path)
        if placeholder is not None and not _has_value(data, path, placeholder):
            _set_value(data, path, placeholder)
            return {path}
        if found.kind != MISSING_KEY and _remove_value(data, path):
            return {path}
        path, found = path[:-1], found._replace(kind="")
    return {()}


def _placeholder(path: Path) -> object:
    """A value that the spec may have at this path; None if it can do without one."""
    name = path[-1]
    number = "-".join(str(step) for step in path if isinstance(step, int))
    if isinstance(name, str):
        if name == "sql":
            return "true" if "expect" in path else _STEP
        if name == "name":
            return f"placeholder-{number}"
        return _PLACEHOLDERS.get(name)
    match path[-2] if len(path) > 1 else "":
        case "transform":
            return {"sql": _STEP}
        case "expect":
            return {"name": f"placeholder-{number}", "sql": "true"}
        case "flows":
            return {"name": f"placeholder-{number}", "source": _SOURCE, "sink": _SINK}
        case "topics" | "key" | "partition_by":
            return f"placeholder-{number}"
        case _:
            return None


def _has_value(data: object, path: Path, value: object) -> bool:
    parent = _value_at(data, path[:-1])
    if isinstance(parent, dict):
        return parent.get(path[-1]) == value
    return False


def _value_at(data: object, path: Path) -> object:
    for step in path:
        try:
            data = data[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _set_value(data: object, path: Path, value: object) -> None:
    parent = _value_at(data, path[:-1])
    if isinstance(parent, dict | list):
        parent[path[-1]] = value  # type: ignore[index]


def _remove_value(data: object, path: Path) -> bool:
    """Whether there was such a key. The items of a list keep their numbers, so none is removed."""
    parent = _value_at(data, path[:-1])
    if not isinstance(parent, dict):
        return False
    for name in (path[-1], str(path[-1])):
        if name in parent:
            del parent[name]
            return True
    return False
