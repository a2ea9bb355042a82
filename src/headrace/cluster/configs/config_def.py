"""One setting: its name, type, default and allowed values, and how its text is parsed.

Texts are parsed as Kafka parses them and refused with Kafka's messages, because clients show these
to users: `Invalid value x for configuration retention.ms: Not a number of type LONG`.
"""

import re
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Final, NamedTuple

ConfigValue = bool | int | float | str | tuple[str, ...]


class ConfigType(IntEnum):
    """Kafka's codes for config types."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """The ways in which a broker setting may change: only at start, on one broker, or on all at
    once."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class InvalidConfig(Exception):
    """A value is not allowed; the message names the config, the value and the reason."""

    def __init__(self, name: str, value: object, reason: str, message: str | None = None) -> None:
        super().__init__(message or f"Invalid value {value} for configuration {name}: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


class Synonym(NamedTuple):
    """A broker setting that provides the default, and the factor that converts its unit."""

    name: str
    factor: int = 1


class ConfigDef(NamedTuple):
    """A setting. `default` is the text as in a properties file; None means unset.

    A named tuple is the cheapest type to build, and each start builds hundreds of them.
    """

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    importance: str = "MEDIUM"
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    ignore_case: bool = False
    rule: str | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    meaningful_here: bool = True
    """False if Kafka has the setting but it has no effect here; setting it logs a warning."""
    hidden: bool = False
    """Whether the setting is described only if it is set."""

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """The typed value; raises `InvalidConfig`."""
        text = text.strip()
        match self.type:
            case ConfigType.BOOLEAN:
                return self._boolean(text)
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                return self._in_range(self._integer(text))
            case ConfigType.DOUBLE:
                return self._in_range(self._double(text))
            case ConfigType.LIST:
                return self._list(text)
            case _:
                return self._string(text)

    def canonical(self, text: str) -> str:
        """The text in canonical form: trimmed, lists without blanks and duplicates."""
        match self.parse(text):
            case bool(flag):
                return "true" if flag else "false"
            case int(number):
                return str(number)
            case tuple(words):
                return ",".join(words)
            case _:
                return text.strip()

    def allowed(self) -> str:
        """The allowed values, in words."""
        words = _TYPE_WORDS[self.type]
        if self.choices:
            of = "any of" if self.type is ConfigType.LIST else "one of"
            return f"{words}: {of} {', '.join(self.choices)}"
        if self.rule is not None:
            return f"{words}: {_RULES[self.rule].words}"
        low, high = _plain(self.minimum), _plain(self.maximum)
        if low is not None and high is not None:
            return f"{words} from {low} to {high}"
        if low is not None:
            return f"{words}, at least {low}"
        return words

    def _boolean(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise InvalidConfig(self.name, text, "Expected value to be either true or false")
        return lowered == "true"

    def _integer(self, text: str) -> int:
        # int() also accepts "1_000" and digits of other scripts, which Kafka does not.
        if re.fullmatch(_INTEGER, text) and len(text) <= _MAX_INTEGER_CHARS:
            number = int(text)
            limit = _INTEGER_LIMITS[self.type]
            if -limit <= number < limit:
                return number
        raise InvalidConfig(self.name, text, f"Not a number of type {self.type.name}")

    def _double(self, text: str) -> float:
        if not re.fullmatch(_DOUBLE, text):
            raise InvalidConfig(self.name, text, "Not a number of type DOUBLE")
        return float(text)

    def _in_range(self, number: int | float) -> int | float:
        if self.minimum is not None and number < self.minimum:
            reason = f"Value must be at least {_plain(self.minimum)}"
            raise InvalidConfig(self.name, number, reason)
        if self.maximum is not None and number > self.maximum:
            reason = f"Value must be no more than {_plain(self.maximum)}"
            raise InvalidConfig(self.name, number, reason)
        self._check_rule(number)
        return number

    def _list(self, text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(word.strip() for word in text.split(","))) if text else ()
        if "" in words:
            reason = f"Configuration '{self.name}' values must not be empty."
            raise InvalidConfig(self.name, text, reason, message=reason)
        for word in words:
            self._check_choice(word)
        self._check_rule(words)
        return words

    def _string(self, text: str) -> str:
        self._check_choice(text)
        self._check_rule(text)
        return text

    def _check_choice(self, word: str) -> None:
        if not self.choices or word in self.choices:
            return
        if self.ignore_case:
            if word.upper() in map(str.upper, self.choices):
                return
            label = "String must be one of (case insensitive): "
        else:
            label = "String must be one of: "
        raise InvalidConfig(self.name, word, label + ", ".join(self.choices))

    def _check_rule(self, value: ConfigValue) -> None:
        if self.rule is None:
            return
        rule = _RULES[self.rule]
        if not rule.holds(value):
            shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
            reason = rule.refusal.format(name=self.name, value=shown)
            raise InvalidConfig(self.name, shown, reason)


class _Rule(NamedTuple):
    """A check that is neither a range nor a choice."""

    words: str
    refusal: str
    holds: Callable[[ConfigValue], bool]


# Compiled when first used, not at import: most starts need none of them.
_INTEGER: Final = r"[+-]?[0-9]+"
_DOUBLE: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
_DURATION: Final = (
    r"by_duration:P(?=[0-9T])([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?"
)
_REPLICA: Final = r"[0-9]+:[0-9]+"
_OVERRIDE: Final = r"[^:,\s][^,\s]*:\s*[0-9]+"
_MAX_INTEGER_CHARS: Final = 40
"""Longer than any 64-bit number: keeps int() from parsing megabytes of digits."""

_INTEGER_LIMITS: Final = {
    ConfigType.SHORT: 1 << 15,
    ConfigType.INT: 1 << 31,
    ConfigType.LONG: 1 << 63,
}
_TYPE_WORDS: Final = {
    ConfigType.UNKNOWN: "any text",
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "a whole number",
    ConfigType.SHORT: "a whole number",
    ConfigType.LONG: "a whole number",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma-separated list",
    ConfigType.CLASS: "the name of a Java class",
    ConfigType.PASSWORD: "a secret",
}


def _plain(number: float | None) -> str | None:
    if number is None:
        return None
    return str(int(number)) if number == int(number) else str(number)


def _gzip_level(value: ConfigValue) -> bool:
    return value == -1 or (isinstance(value, int) and 1 <= value <= 9)


def _throttled_replicas(value: ConfigValue) -> bool:
    assert isinstance(value, tuple)
    return value == ("*",) or all(re.fullmatch(_REPLICA, word) for word in value)


def _connection_overrides(value: ConfigValue) -> bool:
    text = str(value)
    return not text or all(re.fullmatch(_OVERRIDE, word.strip()) for word in text.split(","))


def _offset_reset(value: ConfigValue) -> bool:
    text = str(value)
    return text in ("earliest", "latest") or re.fullmatch(_DURATION, text) is not None


_RULES: Final = {
    "gzip-level": _Rule(
        "from 1 to 9, or -1", "Value must be between 1 and 9 or equal to -1", _gzip_level
    ),
    "throttled-replicas": _Rule(
        "partition:broker pairs, or *",
        "{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        _throttled_replicas,
    ),
    "connection-overrides": _Rule(
        "host:count pairs separated by commas",
        "Expected host:count pairs separated by commas",
        _connection_overrides,
    ),
    "offset-reset": _Rule(
        "earliest, latest or by_duration:<ISO 8601 duration>",
        "Invalid value `{value}` for configuration {name}. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        _offset_reset,
    ),
    "non-empty": _Rule("not empty", "String must be non-empty", bool),
}
