"""Parses the tables of settings, which have two or more lines for each setting.

    log.segment.bytes int 1073741824 min=1048576 HIGH cluster-wide
        Size at which a segment is closed and the next one begun.

The first line: name, type, default (`null` unset, `""` empty), then in any order `min=`, `max=`,
`in=a|b`, `icase`, `rule=`, `from=broker.setting*factor`, an importance, an update mode, `hidden`.
The indented lines after it document the setting.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from headrace.cluster.configs.config_def import ConfigDef, ConfigType, Synonym, UpdateMode

_TYPES: Final = {type_.name.lower(): type_ for type_ in ConfigType}
_MODES: Final = {mode.value: mode for mode in UpdateMode}
_DEFAULTS: Final[Mapping[str, str | None]] = {"null": None, '""': ""}


class BadTable(Exception):
    """A table in this package is malformed."""


def read_table(text: str, *, meaningful_here: bool = True) -> Iterator[ConfigDef]:
    """The definitions, in the order of the table."""
    head: str | None = None
    documentation: list[str] = []
    for line in text.splitlines():
        if line.startswith("    "):
            documentation.append(line[4:])
        elif line:
            if head is not None:
                yield _definition(head, " ".join(documentation), meaningful_here)
            head, documentation = line, []
    if head is not None:
        yield _definition(head, " ".join(documentation), meaningful_here)


def index(*tables: Iterator[ConfigDef]) -> Mapping[str, ConfigDef]:
    """Definitions by name, sorted by name; a name that appears twice is a mistake."""
    found: dict[str, ConfigDef] = {}
    for table in tables:
        for definition in table:
            if definition.name in found:
                raise BadTable(f"{definition.name} is defined twice")
            found[definition.name] = definition
    return MappingProxyType(dict(sorted(found.items())))


def _definition(head: str, documentation: str, meaningful_here: bool) -> ConfigDef:
    name, type_, default, *attributes = head.split()
    importance, mode = "MEDIUM", UpdateMode.READ_ONLY
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    synonyms: tuple[Synonym, ...] = ()
    rule: str | None = None
    flags = set()
    for attribute in attributes:
        key, _, value = attribute.partition("=")
        if key in ("HIGH", "MEDIUM", "LOW"):
            importance = key
        elif key in _MODES:
            mode = _MODES[key]
        elif key == "min":
            low = float(value) if "." in value else int(value)
        elif key == "max":
            high = float(value) if "." in value else int(value)
        elif key == "in":
            choices = tuple(value.split("|"))
        elif key == "from":
            synonyms = tuple(map(_synonym, value.split(",")))
        elif key == "rule":
            rule = value
        elif key in ("icase", "hidden"):
            flags.add(key)
        else:
            raise BadTable(f"{name}: unknown attribute {attribute}")
    return ConfigDef(
        name,
        _TYPES[type_],
        _DEFAULTS.get(default, default),
        documentation,
        importance,
        low,
        high,
        choices,
        "icase" in flags,
        rule,
        mode,
        synonyms,
        meaningful_here,
        "hidden" in flags,
    )


def _synonym(text: str) -> Synonym:
    name, _, factor = text.partition("*")
    return Synonym(name, int(factor or 1))
