"""The errors that pydantic finds in the fields of a spec, with positions and fixes."""

from typing import Final, NamedTuple

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from headrace.name_suggestion import nearest_name
from headrace.pipeline.spec.flow import DeadLetter, Expectation, FlowSpec, PythonStep, SqlStep
from headrace.pipeline.spec.formats import FORMATS, Avro, Csv, Json, Protobuf, Raw, Registry
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.sinks import SINKS, Delta, Iceberg, Maintenance, Parquet, Topic
from headrace.pipeline.spec.sources import (
    DeltaSource,
    FileSource,
    StartOffsets,
    StartTimestamp,
    TopicSource,
)
from headrace.pipeline.spec.spec_errors import SpecError
from headrace.pipeline.spec.spec_rules import Path
from headrace.pipeline.spec.yaml_text import Document, position_of

UNKNOWN_KEY: Final = "extra_forbidden"
MISSING_KEY: Final = "missing"


class FieldError(NamedTuple):
    """An error of one field: the error as shown, pydantic's name of it, and the key or format that
    was probably meant."""

    error: SpecError
    kind: str
    suggestion: str = ""

    @property
    def path(self) -> Path:
        return self.error.path


def field_error(error: ErrorDetails, document: Document) -> FieldError:
    """Turns one error of pydantic into one with a position and a fix."""
    context = error.get("ctx", {})
    path = _path_of(error["loc"])
    kind = error["type"]
    if kind in _CHOICES:
        path = (*path, "format")
    elif "key" in context:
        path = (*path, str(context["key"]))
    fix = str(context.get("fix", ""))
    message = error["msg"]
    if kind == UNKNOWN_KEY:
        close, known = _closest_key(path, error["loc"])
        fix = f"did you mean {close}?" if close else f"use one of: {', '.join(known)}"
        position = document.keys.get(path, position_of(path, document))
        shown = SpecError(*position, path, f"unknown key: {path[-1]}", fix)
        return FieldError(shown, kind, close)
    suggestion = ""
    if kind == MISSING_KEY:
        message, fix = f"{path[-1]} is missing", f"add {path[-1]}:"
    elif kind == "literal_error":
        allowed = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
        message, fix = f"{error['input']!r} is not allowed here", f"use one of: {allowed}"
    elif kind in _CHOICES:
        message, fix, suggestion = _unknown_format(message, path, _CHOICES[kind], document.data)
    elif kind in _FIXES:
        fix = _FIXES[kind]
    elif kind == "string_pattern_mismatch":
        message = f"{error['input']!r} does not match {context.get('pattern')}"
    elif kind in ("model_type", "model_attributes_type", "dict_type"):
        message = "must be a mapping (name: value)"
    elif kind == "tuple_type":
        given = error["input"]
        message, fix = "must be a list", f"[{given}]" if isinstance(given, str) else "[a, b]"
    elif kind == "timezone_aware":
        message, fix = "a time needs a zone", "write, for example, 2026-01-31T00:00:00Z"
    else:
        message = message.removeprefix("Value error, ").replace("Input should", "should")
    return FieldError(SpecError(*position_of(path, document), path, message, fix), kind, suggestion)


def _unknown_format(
    message: str, path: Path, allowed: tuple[str, ...], data: object
) -> tuple[str, str, str]:
    """The message, the fix and the format that was probably meant."""
    found = data
    for step in path:
        try:
            found = found[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return f"{path[-1]} is missing", f"use one of: {', '.join(allowed)}", ""
    near = nearest_name(str(found), allowed)
    fix = f"use one of: {', '.join(allowed)}" if near is None else f"did you mean {near}?"
    return f"{message}: {found!r}", fix, near or ""


_CHOICES: Final = {"format": FORMATS, "sink_format": SINKS}
_FIXES: Final = {
    "start": "write earliest, latest, {offsets: {topic: {0: 5}}} "
    "or {timestamp: 2026-01-31T00:00:00Z}",
    "step": "write {sql: SELECT ... FROM source} or {python: module:function}",
}
_SECTIONS: Final[dict[str, type[BaseModel]]] = {
    "<json>": Json,
    "<avro>": Avro,
    "<protobuf>": Protobuf,
    "<csv>": Csv,
    "<raw>": Raw,
    "<topics>": TopicSource,
    "<files>": FileSource,
    "<delta>": Delta,
    "<iceberg>": Iceberg,
    "<parquet>": Parquet,
    "<topic>": Topic,
    "<sql>": SqlStep,
    "<python>": PythonStep,
    "<offsets>": StartOffsets,
    "<timestamp>": StartTimestamp,
    "dead_letter": DeadLetter,
    "expect": Expectation,
    "flows": FlowSpec,
    "registry": Registry,
    "maintenance": Maintenance,
}


def _closest_key(path: Path, loc: tuple[str | int, ...]) -> tuple[str, list[str]]:
    """The key that was probably meant, if any, and all keys of the section."""
    section: type[BaseModel] = PipelineSpec
    for step in loc[:-1]:
        if step == "<delta>" and "source" in loc:
            section = DeltaSource
        elif isinstance(step, str) and step in _SECTIONS:
            section = _SECTIONS[step]
    known = sorted(field.alias or name for name, field in section.model_fields.items())
    # A source with neither of these keys is taken for a source of topics.
    candidates = [*known, "files", "delta"] if section is TopicSource else known
    return nearest_name(str(path[-1]), candidates) or "", known


def _path_of(loc: tuple[str | int, ...]) -> Path:
    """Returns the path in the text: `loc` without pydantic's tags for kinds of sections."""
    path: list[str | int] = []
    for step in loc:
        if isinstance(step, str) and (step.startswith("<") or step == "[key]"):
            continue
        path.append(step)
    return tuple(path)
