"""Loads a spec from a file and reports all of its errors at once, with lines and fixes."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Final

from headrace.pipeline.application.partial_spec import (
    PLACEHOLDER_SINK,
    PLACEHOLDER_SOURCE,
    valid_part,
)
from headrace.pipeline.formats.spec_schema_rules import schema_problems
from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.spec_errors import SpecError, SpecErrors
from headrace.pipeline.spec.spec_rules import Path, Problem, problems_of
from headrace.pipeline.spec.spec_values import VARIABLE, UnsetVariable, expanded
from headrace.pipeline.spec.yaml_text import Document, position_of, read_yaml

# Sections that may contain secrets: their variables are replaced only when they are used.
SETTINGS: Final = frozenset({"kafka", "storage_options", "catalog", "auth", "spark"})
MAX_SPEC_BYTES: Final = 10 * 2**20
"""A spec is written by hand. A larger file is not a spec."""

SpecCheck = Callable[[PipelineSpec], list[Problem]]
"""A check of a spec whose fields are valid."""


def load_spec(
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    more: SpecCheck | None = None,
) -> PipelineSpec:
    """Returns the spec in the file. Raises `SpecErrors` with all of its errors.

    `more` is a further check. It may get a spec with placeholders instead of invalid values.
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
    """Returns the spec in a text. Raises `SpecErrors`. Relative paths start at `base`.

    Reports the errors of all layers: YAML, variables, fields, rules, schemas, and `more`. A later
    layer checks the valid part of the spec. An error that another error causes is not reported.
    """
    document = read_yaml(text)
    errors = list(document.errors)
    if not errors and not isinstance(document.data, dict):
        errors.append(SpecError(1, 1, (), "is not a mapping", "start with pipeline: name"))
    if not isinstance(document.data, dict):
        raise SpecErrors(errors, file, text)
    env = os.environ if environment is None else environment
    unset: list[SpecError] = []
    data = _with_variables(document.data, (), env, unset, document)
    invalid = {(name,) for name in document.unreadable} | {each.path for each in unset}
    part = valid_part(data, document, base, invalid)
    errors += [*unset, *part.errors]
    if part.spec is not None:
        checks = (problems_of, schema_problems, *([] if more is None else [more]))
        problems = _problems_of_layers(part.spec, checks, part.invalid)
        errors += [_located(each, document) for each in problems]
    if errors or part.spec is None:
        raise SpecErrors(errors, file, text)
    return part.spec


def _problems_of_layers(
    spec: PipelineSpec, checks: Iterable[SpecCheck], invalid: Collection[Path]
) -> list[Problem]:
    """The problems that each check finds, without consequences of invalid values.

    A value that one check has reported is not reported again by a later one.
    """
    problems: list[Problem] = []
    for check in checks:
        reported = {each.path for each in problems}
        problems += [
            each
            for each in check(spec)
            if each.path not in reported and not each.follows_from(invalid)
        ]
        spec, invalid = _with_missing_sections(spec, invalid)
    return problems


def _with_missing_sections(
    spec: PipelineSpec, invalid: Collection[Path]
) -> tuple[PipelineSpec, Collection[Path]]:
    """Adds a source or a sink if it is missing, so that the steps can be checked nevertheless."""
    if spec.flows or (spec.source is not None and spec.sink is not None):
        return spec, invalid
    parts = {
        name: each
        for name, each in (("source", PLACEHOLDER_SOURCE), ("sink", PLACEHOLDER_SINK))
        if getattr(spec, name) is None
    }
    return spec.model_copy(update=parts), {*invalid, *((name,) for name in parts)}


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
        errors.append(SpecError(*position_of(path, document), path, str(error), fix))
        return value
    return value if SETTINGS & set(path) else text


def _located(problem: Problem, document: Document) -> SpecError:
    position = position_of(problem.path, document)
    return SpecError(*position, problem.path, problem.message, problem.fix)
