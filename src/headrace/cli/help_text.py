"""The layout of --help: options in groups, one column of descriptions, examples at the end."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from headrace.cli.confirmation import EXECUTION_PANEL
from headrace.cli.help_examples import EXAMPLES
from headrace.cli.options import CONNECTION_PANEL

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter, Parameter

MAX_WIDTH: Final = 100
"""The maximum length of a line, in characters; longer lines are hard to read."""
MAX_NAME_WIDTH: Final = 29
"""A longer name has a line of its own, above its description."""
_GAP: Final = 2
_DEFAULT: Final = "[default: "
_UNBROKEN: Final = "\N{NO-BREAK SPACE}"
_ORDER: Final = (
    *("up", "demo", "produce", "consume", "topic", "group", "share", "txn", "config"),
    *("user", "acl", "quota", "token", "cert", "cluster", "broker", "pipeline", "dlq"),
    *("top", "generate"),
    *("profile", "kafka-topics", "version"),
)
"""The order of the commands in `headrace --help`."""
_NO_SHORT_NAME: Final = " " * len("-x, ")
_OPTIONS: Final = "Options"

_RANGE: Final = "What to read"
_OUTPUT: Final = "Output"
_EACH: Final = "A command for each record"
_RECORDS: Final = "Records"
_SENDING: Final = "Sending"
_PLAN: Final = "Plan"
_RUNNING: Final = "Moves in progress"
_DATA: Final = "Data and settings"
_NETWORK: Final = "Network"
_LOGGING: Final = "Logging"
_BROKER: Final[Mapping[str, str]] = {
    **dict.fromkeys(("data", "ephemeral", "config", "set", "settings"), _DATA),
    **dict.fromkeys(("port", "host", "brokers", "zookeeper"), _NETWORK),
    **dict.fromkeys(("log_format", "verbose"), _LOGGING),
}
PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "consume": {
        **dict.fromkeys(("group", "partitions", "offset", "count"), _RANGE),
        **dict.fromkeys(("exit_at_end", "uncommitted"), _RANGE),
        **dict.fromkeys(("format", "key_separator", "headers", "raw"), _OUTPUT),
        **dict.fromkeys(("key_decoder", "value_decoder", "header_decoder"), _OUTPUT),
        **dict.fromkeys(("exec_", "dead_letter"), _EACH),
    },
    "produce": {
        **dict.fromkeys(("value", "key", "key_separator", "header", "tombstone"), _RECORDS),
        **dict.fromkeys(("empty_is_null", "input_form", "key_encoder"), _RECORDS),
        **dict.fromkeys(("value_encoder", "header_encoder"), _RECORDS),
        **dict.fromkeys(("partition", "partitioner", "compression", "acks", "create"), _SENDING),
    },
    "reassign": {
        **dict.fromkeys(("to", "topic", "plan", "save", "save_current"), _PLAN),
        **dict.fromkeys(("throttle", "wait"), EXECUTION_PANEL),
        **dict.fromkeys(("status", "cancel", "unthrottle"), _RUNNING),
    },
    "up": _BROKER,
    "start": _BROKER,
    "demo": _BROKER,
    "seek": dict.fromkeys(("to", "shift", "to_group", "to_file", "topic"), "Where to"),
    "replay": {
        **dict.fromkeys(("where", "limit"), "Which dead letters"),
        **dict.fromkeys(("sql", "python", "to"), "What to send"),
    },
    "kafka-topics": {
        **dict.fromkeys(("create", "list_", "describe", "alter", "delete"), "Action (exactly one)"),
        **dict.fromkeys(("under_replicated", "unavailable"), "With --describe"),
        **dict.fromkeys(("under_min_isr", "at_min_isr", "with_overrides"), "With --describe"),
        "command_config": CONNECTION_PANEL,
    },
}
"""The panel of each option, for commands with many options."""

Row = tuple[str, str]
"""A name (of an option, an argument or a command) and its description."""


class HelpCommand(TyperCommand):
    """A command with Headrace's help."""

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        arguments = [each for each in self.get_params(ctx) if isinstance(each, TyperArgument)]
        return ["[OPTIONS]", *map(_usage_of, arguments)]

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        params = self.get_params(ctx)
        arguments = [each for each in params if isinstance(each, TyperArgument)]
        sections = {"Arguments": [_argument_row(each) for each in arguments]}
        _write_sections(formatter, {**sections, **_option_sections(self.name, params)})

    def format_epilog(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        _write_examples(formatter, self.epilog)


class HelpGroup(TyperGroup):
    """A group of commands with Headrace's help."""

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        commands = [
            (name, _first_paragraph(command.help or ""))
            for name, command in self.commands.items()
            if not command.hidden
        ]
        _write_sections(formatter, {"Commands": sorted(commands, key=_place_in_listing)})
        _write_sections(formatter, _option_sections(self.name, self.get_params(ctx)))

    def format_epilog(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        _write_examples(formatter, self.epilog)


def _place_in_listing(row: Row) -> int:
    """Commands of `headrace` itself by their use; the others in the order of their definition."""
    name, _ = row
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _write_examples(formatter: "HelpFormatter", examples: str | None) -> None:
    if examples:
        formatter.write("\nExamples:\n")
        formatter.write("".join(f"  {line}\n" for line in examples.splitlines()))


def _usage_of(argument: TyperArgument) -> str:
    name = str(argument.metavar)
    shown = name if argument.required else f"[{name}]"
    return shown if argument.nargs == 1 else f"{shown}..."


def _argument_row(argument: TyperArgument) -> Row:
    return str(argument.metavar), _with_default(argument)


def _option_sections(command: str | None, params: "Sequence[Parameter]") -> dict[str, list[Row]]:
    """The rows of each panel; the connection, which most commands share, comes last."""
    panels = PANELS.get(command or "", {})
    sections: dict[str, list[Row]] = {}
    for param in params:
        if isinstance(param, TyperOption) and not param.hidden:
            panel = panels.get(str(param.name)) or param.rich_help_panel or _OPTIONS
            sections.setdefault(panel, []).append((_option_names(param), _with_default(param)))
    if CONNECTION_PANEL in sections:
        sections[CONNECTION_PANEL] = sections.pop(CONNECTION_PANEL)  # last
    return sections


def _option_names(option: TyperOption) -> str:
    """The first short and the first long name, without further aliases, and the placeholder."""
    short = next((name for name in option.opts if not name.startswith("--")), None)
    long = next((name for name in option.opts if name.startswith("--")), None)
    if short is None:
        names = f"{_NO_SHORT_NAME}{long}"
    else:
        names = short if long is None else f"{short}, {long}"
    for opposite in option.secondary_opts[:1]:
        names += f" / {opposite}"
    return names if option.is_flag else f"{names} {option.metavar}"


def _with_default(param: TyperOption | TyperArgument) -> str:
    """The description, with the default value or that the option is required."""
    text = param.help or ""
    default = _default_text(param)
    if default:
        return f"{text} {_DEFAULT}{default}]"
    return f"{text} [required]" if param.required and isinstance(param, TyperOption) else text


def _default_text(param: TyperOption | TyperArgument) -> str | None:
    if isinstance(param.show_default, str):
        return param.show_default
    default = param.default
    if not param.show_default or default is None or default == [] or default is False:
        return None
    if default is True:
        return param.opts[0] if isinstance(param, TyperOption) and param.secondary_opts else None
    if isinstance(default, Enum):
        return str(default.value)
    return f"{default:g}" if isinstance(default, float) else str(default)


def _first_paragraph(text: str) -> str:
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())


def _write_sections(formatter: "HelpFormatter", sections: Mapping[str, Sequence[Row]]) -> None:
    """Writes the sections that have rows; the descriptions of all form one column."""
    widths = [len(name) for rows in sections.values() for name, _ in rows]
    column = max((width for width in widths if width <= MAX_NAME_WIDTH), default=0)
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                for row in rows:
                    formatter.write("".join(_row_lines(row, column, formatter.width)))


def _row_lines(row: Row, column: int, width: int) -> Iterator[str]:
    name, text = row
    lines = _wrapped(text, width - column - 2 * _GAP)
    if len(name) > column:
        yield f"  {name}\n"
        name = ""
    elif not lines:
        yield f"  {name}\n"
    for line in lines:
        yield f"  {name:<{column}}  {line}\n"
        name = ""


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a description; the default value at its end stays on one line if it fits."""
    from textwrap import wrap

    words, bracket, default = text.rpartition(_DEFAULT)
    if bracket and len(bracket + default) <= width:
        text = words + (bracket + default).replace(" ", _UNBROKEN)
    lines = wrap(text, width, break_on_hyphens=False)
    return [line.replace(_UNBROKEN, " ") for line in lines]


def add_help(app: typer.Typer, path: tuple[str, ...] = ()) -> None:
    """Sets the help classes and the examples of every command."""
    app.info.cls = HelpGroup
    app.info.epilog = "\n".join(EXAMPLES.get(" ".join(path), ())) or None
    app.info.context_settings = {"max_content_width": MAX_WIDTH}
    for command in app.registered_commands:
        command.cls = HelpCommand
        name = " ".join((*path, command.name or _name_of(command.callback)))
        command.epilog = "\n".join(EXAMPLES.get(name, ())) or None
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_help(group.typer_instance, (*path, str(group.name)))


def _name_of(callback: object) -> str:
    return str(getattr(callback, "__name__", "")).strip("_").replace("_", "-")
