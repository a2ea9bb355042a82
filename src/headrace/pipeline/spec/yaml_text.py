"""Reads YAML into plain values, with the position of every key and value."""

from typing import Final, NamedTuple

import yaml

from headrace.pipeline.spec.spec_errors import SpecError
from headrace.pipeline.spec.spec_rules import Path

# Aliases can expand a small text without limit. These are far above what a spec needs.
MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 50
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


def read_yaml(text: str) -> Document:
    """Reads a text. Syntax errors and duplicate keys are in the document's `errors`."""
    reader = _PositionReader()
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        return _invalid(text[: error.position].count("\n") + 1, 1, str(error.reason))
    try:
        node = loader.get_single_node()
        data = None if node is None else reader.value(loader, node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        if error.problem == "but found another document":
            return _invalid(line, column, "a second document begins here", _ONE_SPEC)
        return _invalid(line, column, error.problem or error.context or "cannot be read")
    except yaml.YAMLError as error:
        return _invalid(1, 1, str(error))
    except RecursionError:
        return _invalid(1, 1, "it is nested too deeply")
    finally:
        loader.dispose()
    return Document(data, reader.keys, reader.values, reader.errors)


def _invalid(
    line: int, column: int, reason: str, fix: str = "check indentation, colons and quotes"
) -> Document:
    return Document(
        None, {}, {}, [SpecError(line, column, (), f"is not valid YAML: {reason}", fix)]
    )


class _PositionReader:
    """Builds the values of YAML nodes and collects their positions."""

    def __init__(self) -> None:
        self.keys: dict[Path, YamlPosition] = {}
        self.values: dict[Path, YamlPosition] = {}
        self.errors: list[SpecError] = []

    def value(self, loader: yaml.SafeLoader, node: yaml.Node, path: Path) -> object:
        self.values[path] = _position_of(node)
        if len(self.values) > MAX_VALUES or len(path) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem="too many values, or nested too deeply", problem_mark=node.start_mark
            )
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
                position = _position_of(key_node)
                self.errors.append(SpecError(*position, path, "a key must be a plain value"))
                continue
            at = (*path, key if isinstance(key, int) else str(key))
            if key in found and id(key_node) in own and at in self.keys:
                first = self.keys[at].line
                position = _position_of(key_node)
                message = f"{key} is a duplicate; line {first} already sets it"
                self.errors.append(SpecError(*position, at, message, "remove one of them"))
            self.keys[at] = _position_of(key_node)
            found[key] = self.value(loader, value_node, at)
        return found


def _position_of(node: yaml.Node) -> YamlPosition:
    return YamlPosition(node.start_mark.line + 1, node.start_mark.column + 1)
