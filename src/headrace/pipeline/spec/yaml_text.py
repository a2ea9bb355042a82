"""YAML into plain values, with the place of every key and value."""

from typing import Final, NamedTuple

import yaml

from headrace.pipeline.spec.spec_errors import SpecError
from headrace.pipeline.spec.spec_rules import Path

# Aliases can make a small text huge; no spec comes near this.
MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 50


class YamlPosition(NamedTuple):
    """From 1, as editors count."""

    line: int
    column: int


class Document(NamedTuple):
    """The values, and where each stands. `keys` are the places of names, `values` of contents."""

    data: object
    keys: dict[Path, YamlPosition]
    values: dict[Path, YamlPosition]
    errors: list[SpecError]


def read_yaml(text: str) -> Document:
    """Mistakes of YAML itself and doubled keys are among the errors."""
    reader = _Reader()
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        return _broken(text[: error.position].count("\n") + 1, 1, str(error.reason))
    try:
        node = loader.get_single_node()
        data = None if node is None else reader.value(loader, node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        if error.problem == "but found another document":
            return _broken(line, column, "a second document begins here", "one spec a file: flows:")
        return _broken(line, column, error.problem or error.context or "cannot be read")
    except yaml.YAMLError as error:
        return _broken(1, 1, str(error))
    except RecursionError:
        return _broken(1, 1, "too deep")
    finally:
        loader.dispose()
    return Document(data, reader.keys, reader.values, reader.errors)


def _broken(
    line: int, column: int, reason: str, fix: str = "check indentation, colons and quotes"
) -> Document:
    return Document(None, {}, {}, [SpecError(line, column, (), f"is no YAML: {reason}", fix)])


class _Reader:
    def __init__(self) -> None:
        self.keys: dict[Path, YamlPosition] = {}
        self.values: dict[Path, YamlPosition] = {}
        self.errors: list[SpecError] = []

    def value(self, loader: yaml.SafeLoader, node: yaml.Node, path: Path) -> object:
        self.values[path] = _place(node)
        if len(self.values) > MAX_VALUES or len(path) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem="too large or too deep", problem_mark=node.start_mark
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(loader, node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(loader, each, (*path, i)) for i, each in enumerate(node.value)]
        try:
            return loader.construct_object(node)
        except ValueError as error:  # a date that there is not, say
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
                place = _place(key_node)
                self.errors.append(SpecError(*place, path, "a key must be a plain name"))
                continue
            at = (*path, key if isinstance(key, int) else str(key))
            if key in found and id(key_node) in own and at in self.keys:
                first = self.keys[at].line
                place = _place(key_node)
                message = f"{key} is given twice; it first stands in line {first}"
                self.errors.append(SpecError(*place, at, message, "keep one of them"))
            self.keys[at] = _place(key_node)
            found[key] = self.value(loader, value_node, at)
        return found


def _place(node: yaml.Node) -> YamlPosition:
    return YamlPosition(node.start_mark.line + 1, node.start_mark.column + 1)
