"""The options of `up` and `broker start`, declared once for both command line parsers.

`UP_OPTIONS` and `START_OPTIONS` are the tables. `parse_up` and `parse_start` parse a plain command
line fast. They return None for anything else, errors included, which the full command line then
explains. A test gives both parsers the same arguments.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

Kind = Literal["path", "text", "port", "address", "flag", "choice", "repeated"]

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
MAX_PORT: Final = 65535
EXCLUSIVE: Final = frozenset(("data", "ephemeral"))


# Named tuples, because creating a dataclass takes five times as long and delays the start.
class UpOptions(NamedTuple):
    """The values of the options; None means the settings file's value, else the default."""

    data: Path | None = None
    port: int | None = None
    host: str | None = None
    ephemeral: bool = False
    secure: bool = False
    config: Path | None = None
    http: str | None = None
    set: tuple[str, ...] = ()
    log_format: Literal["text", "logfmt", "json"] | None = None
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
        "Directory for topics; created if it does not exist.",
        metavar="DIR",
        shown_default="your data directory",
    ),
    Option(
        "port",
        "port",
        "Port to listen on; 0 selects a free port.",
        metavar="PORT",
        shown_default=str(DEFAULT_PORT),
    ),
    Option(
        "host",
        "text",
        "Address to listen on and to advertise to clients.",
        metavar="HOST",
        shown_default=DEFAULT_HOST,
    ),
    Option("ephemeral", "flag", "Use a temporary directory that is removed when the broker stops."),
    Option(
        "secure",
        "flag",
        "Accept only clients with TLS and a password; creates certificates, a user and a client "
        "configuration.",
    ),
    Option("config", "path", "Read settings from a server.properties file.", metavar="FILE"),
    Option(
        "http",
        "address",
        "Serve metrics and probes over HTTP on this port; 0 selects a free port.",
        metavar="[HOST:]PORT",
    ),
    Option(
        "set",
        "repeated",
        "Set a broker setting, such as --set log.retention.hours=1; repeatable.",
        metavar="NAME=VALUE",
    ),
    Option(
        "log_format",
        "choice",
        "Format of the log on stderr.",
        shown_default="text",
        choices=("text", "logfmt", "json"),
    ),
    Option(
        "verbose",
        "flag",
        "Log one level more: `up` logs normal events, too, and `broker start` details.",
    ),
)

assert tuple(option.name for option in UP_OPTIONS) == UpOptions._fields

_AT_START: Final = ("config", "http", "set", "log_format", "verbose")
START_OPTIONS: Final = tuple(option for option in UP_OPTIONS if option.name in _AT_START)
"""The options of `headrace broker start`; everything else is in the settings file."""


def is_setting(text: str) -> bool:
    """Whether `text` is of the form NAME=VALUE; the value may be empty."""
    return text.find("=") > 0


def http_listener(text: str) -> str | None:
    """The value of headrace.http.listener for `[HOST:]PORT`; None for any other text."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) <= MAX_PORT):
        return None
    if colon and (not host or any(each in host for each in "/@ ")):
        return None
    return f"http://{host or DEFAULT_HOST}:{port}"


def parse_up(words: Sequence[str]) -> UpOptions | None:
    """The options of `up`; None if the full command line has to parse them."""
    return _parse_options(words, UP_OPTIONS)


def parse_start(words: Sequence[str]) -> UpOptions | None:
    """The options of `broker start`, which requires --config; None as in `parse_up`."""
    options = _parse_options(words, START_OPTIONS)
    return None if options is None or options.config is None else options


def _parse_options(words: Sequence[str], table: Sequence[Option]) -> UpOptions | None:
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
        value = _parse_value(option, text)
        if value is None:
            return None
        if option.kind == "repeated":
            repeated = (*repeated, text)
            value = repeated
        found[option.name] = value
    if found.keys() >= EXCLUSIVE:
        return None
    return UpOptions(**found)  # type: ignore[arg-type]  # the table's kinds are the class's types


def _parse_value(option: Option, text: str) -> object | None:
    if not text:  # usually an unset variable in a script
        return None
    if option.kind == "path":
        return Path(text)
    if option.kind == "port":
        port = int(text) if text.isascii() and text.isdecimal() else -1
        return port if 0 <= port <= MAX_PORT else None
    if option.kind == "address":
        return text if http_listener(text) is not None else None
    if option.kind == "choice":
        return text if text in option.choices else None
    if option.kind == "repeated":
        return text if is_setting(text) else None
    return text
