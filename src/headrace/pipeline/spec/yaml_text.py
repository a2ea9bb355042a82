"""Reads YAML into plain values, with the position of every key and value."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import yaml

from headrace.pipeline.spec.spec_errors import SpecError
from headrace.pipeline.spec.spec_rules import Path

# Aliases can expand a small text without limit. These are far above what a spec needs.
MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 50
MAX_SYNTAX_ERRORS: Final = 20
"""The text is read again after each error, so the number of errors is limited."""
_ONE_SPEC: Final = "write one spec per file; use flows: for several flows"


class YamlPosition(NamedTuple):
    """A position; lines and columns count from 1, as in editors."""

    line: int
    column: int


class Document(NamedTuple):
    """The values of a YAML text, and the positions of its keys and values by path."""

    data: object
    keys: dict[Path, YamlPosition]
    values: dict[Path, YamlPosition]
    errors: list[SpecError]
    unreadable: frozenset[str] = frozenset()
    """The names of top-level sections that were left out because of a syntax error."""


def read_yaml(text: str) -> Document:
    """Reads a text. Syntax errors and duplicate keys are in the document's `errors`.

    A top-level section with a syntax error is left out: the other sections can still be checked.
    """
    lines = text.split("\n")
    errors: list[SpecError] = []
    unreadable: set[str] = set()
    for _ in range(MAX_SYNTAX_ERRORS):
        reader = _PositionReader()
        try:
            data = _read_values("\n".join(lines), reader)
        except _SyntaxError as error:
            errors.append(error.shown)
            section = None if error.section_line is None else _section_at(lines, error.section_line)
            if section is None:
                break
            unreadable.add(_key_of(lines[section.start]))
            lines[section.start : section.stop] = [""] * len(section)
        else:
            return Document(
                data, reader.keys, reader.values, errors + reader.errors, frozenset(unreadable)
            )
    return Document(None, {}, {}, errors, frozenset())


class _SyntaxError(ValueError):
    """The text is not valid YAML. `section_line` is a line of the section that is to blame; None if
    no part of the text can be read."""

    def __init__(
        self,
        line: int,
        column: int,
        reason: str,
        fix: str = "check indentation, colons and quotes",
        *,
        section_line: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.shown = SpecError(line, column, (), f"is not valid YAML: {reason}", fix)
        self.section_line = section_line


def _read_values(text: str, reader: "_PositionReader") -> object:
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise _SyntaxError(line, 1, str(error.reason)) from None
    try:
        node = loader.get_single_node()
        return None if node is None else reader.value(loader, node, ())
    except yaml.MarkedYAMLError as error:
        raise _marked_error(error) from None
    except yaml.YAMLError as error:
        raise _SyntaxError(1, 1, str(error)) from None
    except RecursionError:
        raise _SyntaxError(1, 1, "it is nested too deeply") from None
    finally:
        loader.dispose()


def _marked_error(error: yaml.MarkedYAMLError) -> _SyntaxError:
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return _SyntaxError(1, 1, error.problem or error.context or "cannot be read")
    line, column = mark.line + 1, mark.column + 1
    if error.problem == "but found another document":
        return _SyntaxError(line, column, "a second document begins here", _ONE_SPEC)
    # The context of an unclosed bracket or quote is where it was opened. At column 0 the context is
    # the whole text.
    first = context.line if context is not None and context.column > 0 else mark.line
    reason = error.problem or error.context or "cannot be read"
    return _SyntaxError(line, column, reason, section_line=first)


_SECTION_START: Final = re.compile(r"[^\s#\-\]}]")


def _section_at(lines: Sequence[str], line: int) -> range | None:
    """The lines of the top-level section that contains this line."""
    starts = [at for at, each in enumerate(lines) if _SECTION_START.match(each)]
    start = max((at for at in starts if at <= line), default=None)
    if start is None:
        return None
    return range(start, min((at for at in starts if at > start), default=len(lines)))


def _key_of(line: str) -> str:
    found = re.search(r"\w+", line)
    return "" if found is None else found[0]


class _PositionReader:
    """Builds the values of YAML nodes and collects their positions."""

    def __init__(self) -> None:
        self.keys: dict[Path, YamlPosition] = {}
        self.values: dict[Path, YamlPosition] = {}
        self.errors: list[SpecError] = []

    def value(self, loader: yaml.SafeLoader, node: yaml.Node, path: Path) -> object:
        self.values[path] = _node_position(node)
        if len(self.values) > MAX_VALUES or len(path) > MAX_DEPTH:
            raise _SyntaxError(*_node_position(node), "too many values, or nested too deeply")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(loader, node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(loader, each, (*path, i)) for i, each in enumerate(node.value)]
        try:
            return loader.construct_object(node)
        except ValueError as error:  # for example, a date that does not exist
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from None

    def _mapping(
        self, loader: yaml.SafeLoader, node: yaml.MappingNode, path: Path
    ) -> dict[object, object]:
        own = {id(key) for key, _ in node.value}
        loader.flatten_mapping(node)
        found: dict[object, object] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node)
            if not isinstance(key, str | int | float | bool):
                position = _node_position(key_node)
                self.errors.append(SpecError(*position, path, "a key must be a plain value"))
                continue
            at = (*path, key if isinstance(key, int) else str(key))
            if key in found and id(key_node) in own and at in self.keys:
                first = self.keys[at].line
                position = _node_position(key_node)
                message = f"{key} is a duplicate; line {first} already sets it"
                self.errors.append(SpecError(*position, at, message, "remove one of them"))
            self.keys[at] = _node_position(key_node)
            found[key] = self.value(loader, value_node, at)
        return found


def _node_position(node: yaml.Node) -> YamlPosition:
    return YamlPosition(node.start_mark.line + 1, node.start_mark.column + 1)


def position_of(path: Path, document: Document) -> YamlPosition:
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
