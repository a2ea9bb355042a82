"""The options of `up` and `broker start`, declared once for both readers of the command line.

`UP_OPTIONS` and `START_OPTIONS` are the tables. `parse_up` and `parse_start` read a plain command
line at next to no cost and give up (`None`) on anything else, mistakes included: the full command
line explains those. A test feeds both readers the same words.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

Kind = Literal["path", "text", "port", "flag", "choice", "repeated"]

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
MAX_PORT: Final = 65535
CONTRADICTION: Final = frozenset(("data", "ephemeral"))


# Named tuples, not dataclasses: they take a fifth of the time to make, and this is on the clock.
class UpOptions(NamedTuple):
    """What was asked for; `None` leaves the choice to the settings file, then to the default."""

    data: Path | None = None
    port: int | None = None
    host: str | None = None
    ephemeral: bool = False
    config: Path | None = None
    set: tuple[str, ...] = ()
    log_format: Literal["text", "json"] = "text"
    verbose: bool = False


class Option(NamedTuple):
    """One option of a command; `name` is its attribute in the options class."""

    name: str
    kind: Kind
    help: str
    metavar: str | None = None
    shown_default: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


UP_OPTIONS: Final = (
    Option(
        "data",
        "path",
        "Keep topics in this directory; it is made if it is missing.",
        metavar="DIR",
        shown_default="your data folder",
    ),
    Option(
        "port",
        "port",
        "Listen on this port; 0 takes any free one.",
        metavar="PORT",
        shown_default=str(DEFAULT_PORT),
    ),
    Option(
        "host",
        "text",
        "Listen on this address, and tell clients to use it.",
        metavar="HOST",
        shown_default=DEFAULT_HOST,
    ),
    Option("ephemeral", "flag", "Keep nothing: a temporary directory, removed when it stops."),
    Option("config", "path", "Read settings from a server.properties file.", metavar="FILE"),
    Option(
        "set",
        "repeated",
        "Set one broker setting, as --set log.retention.hours=1; may be repeated.",
        metavar="NAME=VALUE",
    ),
    Option(
        "log_format",
        "choice",
        "How log lines on stderr look.",
        shown_default="text",
        choices=("text", "json"),
    ),
    Option("verbose", "flag", "Log what happens, not only what goes wrong."),
)

assert tuple(option.name for option in UP_OPTIONS) == UpOptions._fields

_AT_START: Final = ("config", "set", "log_format", "verbose")
START_OPTIONS: Final = tuple(option for option in UP_OPTIONS if option.name in _AT_START)
"""Of `headrace broker start`: whatever else there is to say stands in the file."""


def is_setting(text: str) -> bool:
    """Whether `text` is of the form NAME=VALUE; the value may be empty."""
    return text.find("=") > 0


def parse_up(words: Sequence[str]) -> UpOptions | None:
    """The options of `up`, or None where the full command line has to look."""
    return _parse(words, UP_OPTIONS)


def parse_start(words: Sequence[str]) -> UpOptions | None:
    """The options of `broker start`, which needs a file, or None as above."""
    options = _parse(words, START_OPTIONS)
    return None if options is None or options.config is None else options


def _parse(words: Sequence[str], table: Sequence[Option]) -> UpOptions | None:
    known = {option.flag: option for option in table}
    found: dict[str, object] = {}
    repeated: tuple[str, ...] = ()
    rest = iter(words)
    for word in rest:
        flag, equals, attached = word.partition("=")
        option = known.get(flag)
        if option is None:
            return None
        if option.kind == "flag":
            if equals:
                return None
            found[option.name] = True
            continue
        text = attached if equals else next(rest, None)
        if text is None or (not equals and text.startswith("-")):
            return None
        value = _value(option, text)
        if value is None:
            return None
        if option.kind == "repeated":
            repeated = (*repeated, text)
            value = repeated
        found[option.name] = value
    if found.keys() >= CONTRADICTION:
        return None
    return UpOptions(**found)  # type: ignore[arg-type]  # the table's kinds are the class's types


def _value(option: Option, text: str) -> object | None:
    if not text:  # more often an unset variable in a script than a wish
        return None
    if option.kind == "path":
        return Path(text)
    if option.kind == "port":
        port = int(text) if text.isascii() and text.isdecimal() else -1
        return port if 0 <= port <= MAX_PORT else None
    if option.kind == "choice":
        return text if text in option.choices else None
    if option.kind == "repeated":
        return text if is_setting(text) else None
    return text
