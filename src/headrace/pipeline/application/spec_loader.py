"""Loads a spec from a file and reports all of its errors at once, with lines and fixes."""

import os
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headrace.pipeline.formats.spec_schema_rules import schema_problems
from headrace.pipeline.spec.flow import (
    DeadLetter,
    Expectation,
    FlowSpec,
    PythonStep,
    SqlStep,
)
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
from headrace.pipeline.spec.spec_errors import SpecError, SpecErrors
from headrace.pipeline.spec.spec_rules import Path, Problem
from headrace.pipeline.spec.spec_values import VARIABLE, UnsetVariable, expanded
from headrace.pipeline.spec.yaml_text import Document, YamlPosition, read_yaml

# Sections that may contain secrets: their variables are replaced only when they are used.
SETTINGS: Final = frozenset({"kafka", "storage_options", "catalog", "auth", "spark"})
MAX_SPEC_BYTES: Final = 10 * 2**20
"""A spec is written by hand. A larger file is not a spec."""

SpecCheck = Callable[[PipelineSpec], list[Problem]]
"""An additional check of a spec whose text is valid."""


def load_spec(
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    more: SpecCheck | None = None,
) -> PipelineSpec:
    """Returns the spec in the file. Raises `SpecErrors` with all of its errors.

    `more` is called only if the spec has no other error.
    """
    file = FilePath(path)
    try:
        if file.stat().st_size > MAX_SPEC_BYTES:
            message = f"{file} is larger than {MAX_SPEC_BYTES:,} bytes: it is not a spec"
            raise SpecErrors([SpecError(0, 0, (), message)], str(file))
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        fix = "create a spec with: headrace pipeline init"
        found = SpecError(0, 0, (), f"{file}: {reason}", fix)
        raise SpecErrors([found], str(file)) from None
    return parse_spec(
        text, file=str(file), base=file.resolve().parent, environment=environment, more=more
    )


def parse_spec(
    text: str,
    *,
    file: str = "spec",
    base: FilePath | None = None,
    environment: Mapping[str, str] | None = None,
    more: SpecCheck | None = None,
) -> PipelineSpec:
    """Returns the spec in a text. Raises `SpecErrors`. Relative paths start at `base`."""
    document = read_yaml(text)
    errors = list(document.errors)
    if not errors and not isinstance(document.data, dict):
        errors.append(SpecError(1, 1, (), "is not a mapping", "start with pipeline: name"))
    if not isinstance(document.data, dict):
        raise SpecErrors(errors, file, text)
    env = os.environ if environment is None else environment
    data = _with_variables(document.data, (), env, errors, document)
    spec = None
    try:
        spec = PipelineSpec.model_validate(data, context={"base": base})
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=True):
            errors.extend(_spec_errors(each, document))
    if spec is not None:
        found = schema_problems(spec)
        if not errors and not found and more is not None:
            found = more(spec)
        errors.extend(_located(each, document) for each in found)
    if errors or spec is None:
        raise SpecErrors(errors, file, text)
    return spec


def _with_variables(
    value: object,
    path: Path,
    env: Mapping[str, str],
    errors: list[SpecError],
    document: Document,
) -> object:
    """Returns the value with its variables replaced.

    In settings, it only checks that the variables are set.
    """
    if isinstance(value, dict):
        return {
            key: _with_variables(each, (*path, key), env, errors, document)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [
            _with_variables(each, (*path, i), env, errors, document) for i, each in enumerate(value)
        ]
    if not isinstance(value, str) or VARIABLE.search(value) is None:
        return value
    try:
        text = expanded(value, env)
    except UnsetVariable as error:
        fix = "set the variable and try again"
        errors.append(SpecError(*_position_of(path, document), path, str(error), fix))
        return value
    return value if SETTINGS & set(path) else text


def _spec_errors(error: ErrorDetails, document: Document) -> Iterator[SpecError]:
    """Turns one pydantic error into errors with positions and fixes."""
    context = error.get("ctx", {})
    path = _path_of(error["loc"])
    kind = error["type"]
    if kind == "rules":
        for problem in context["problems"]:
            yield _located(problem, document)
        return
    if kind in _CHOICES:
        path = (*path, "format")
    elif "key" in context:
        path = (*path, str(context["key"]))
    fix = str(context.get("fix", ""))
    message = error["msg"]
    if kind == "extra_forbidden":
        message, fix = _unknown_key(path, error["loc"])
        yield SpecError(*document.keys.get(path, _position_of(path, document)), path, message, fix)
        return
    elif kind == "missing":
        message, fix = f"{path[-1]} is missing", f"add {path[-1]}:"
    elif kind == "literal_error":
        allowed = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
        message, fix = f"{error['input']!r} is not allowed here", f"use one of: {allowed}"
    elif kind in _CHOICES:
        message, fix = _unknown_format(message, path, _CHOICES[kind], document.data)
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
    yield SpecError(*_position_of(path, document), path, message, fix)


def _unknown_format(
    message: str, path: Path, allowed: tuple[str, ...], data: object
) -> tuple[str, str]:
    """Returns the message and the fix for a missing or unknown `format`."""
    found = data
    for step in path:
        try:
            found = found[step]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return f"{path[-1]} is missing", f"use one of: {', '.join(allowed)}"
    close = get_close_matches(str(found), allowed, n=1)
    fix = f"did you mean {close[0]}?" if close else f"use one of: {', '.join(allowed)}"
    return f"{message}: {found!r}", fix


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


def _unknown_key(path: Path, loc: tuple[str | int, ...]) -> tuple[str, str]:
    """Returns the message and the fix for a key that its section does not have."""
    section: type[BaseModel] = PipelineSpec
    for step in loc[:-1]:
        if step == "<delta>" and "source" in loc:
            section = DeltaSource
        elif isinstance(step, str) and step in _SECTIONS:
            section = _SECTIONS[step]
    known = sorted(field.alias or name for name, field in section.model_fields.items())
    close = get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
    fix = f"did you mean {close[0]}?" if close else f"use one of: {', '.join(known)}"
    return f"unknown key: {path[-1]}", fix


def _path_of(loc: tuple[str | int, ...]) -> Path:
    """Returns the path in the text: `loc` without pydantic's tags for kinds of sections."""
    path: list[str | int] = []
    for step in loc:
        if isinstance(step, str) and (step.startswith("<") or step == "[key]"):
            continue
        path.append(step)
    return tuple(path)


def _located(problem: Problem, document: Document) -> SpecError:
    position = _position_of(problem.path, document)
    return SpecError(*position, problem.path, problem.message, problem.fix)


def _position_of(path: Path, document: Document) -> YamlPosition:
    """Returns the position of a plain value, else of its key, else of the enclosing section."""
    for length in range(len(path), 0, -1):
        at = path[:length]
        if at in document.values:
            value = document.values[at]
            plain = length == len(path) and at in document.keys
            return (
                value
                if plain and value.line == document.keys[at].line
                else document.keys.get(at, value)
            )
    return YamlPosition(1, 1)
