"""The layout of --help: option panels, no Python types, examples at the end."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from headrace.cli.help_examples import EXAMPLES

if TYPE_CHECKING:
    from typer._click import Context, Parameter

_METAVARS: Final = {"<int>": "N", "<int range>": "N", "<float>": "N", "<str>": "TEXT"}

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
        **dict.fromkeys(("throttle", "wait"), "Execution"),
        **dict.fromkeys(("status", "cancel", "unthrottle"), _RUNNING),
    },
    "up": {
        **dict.fromkeys(("data", "ephemeral", "config", "set", "settings"), _DATA),
        **dict.fromkeys(("port", "host", "brokers", "zookeeper"), _NETWORK),
        **dict.fromkeys(("log_format", "verbose"), _LOGGING),
    },
    "seek": dict.fromkeys(("to", "shift", "to_group", "to_file", "topic"), "Where to"),
    "replay": {
        **dict.fromkeys(("where", "limit"), "Which dead letters"),
        **dict.fromkeys(("sql", "python", "to"), "What to send"),
    },
}
"""The panel of each option, for commands with many options."""


class HelpCommand(TyperCommand):
    """A command whose help shows its options in panels and without Python types."""

    def get_params(self, ctx: "Context") -> "list[Parameter]":
        panels = PANELS.get(self.name or "", {})
        params = [_without_python_types(each, ctx) for each in super().get_params(ctx)]
        for param in params:
            if isinstance(param, TyperOption) and param.name in panels:
                param.rich_help_panel = panels[param.name]
        return params


class HelpGroup(TyperGroup):
    """A group of commands whose help shows no Python types."""

    def get_params(self, ctx: "Context") -> "list[Parameter]":
        return [_without_python_types(each, ctx) for each in super().get_params(ctx)]


def _without_python_types(param: "Parameter", ctx: "Context") -> "Parameter":
    """Replaces Python types: nothing for flags, choices without brackets, else a placeholder."""
    if isinstance(param, TyperOption) and param.metavar is None:
        shown = "" if param.is_flag else str(param.display_type(ctx))
        param.metavar = _METAVARS.get(shown, shown.strip("<>"))
    elif isinstance(param, TyperArgument):
        # The name of an argument is enough; no type is shown.
        param.display_type_rich = _no_type  # type: ignore[method-assign]
    return param


def _no_type(ctx: "Context") -> str:
    return ""


def add_help(app: typer.Typer, path: tuple[str, ...] = ()) -> None:
    """Sets the help classes and the examples of every command."""
    app.info.cls = HelpGroup
    for command in app.registered_commands:
        command.cls = HelpCommand
        name = " ".join((*path, command.name or _name_of(command.callback)))
        command.epilog = _epilog(EXAMPLES.get(name, ()))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_help(group.typer_instance, (*path, str(group.name)))


def _name_of(callback: object) -> str:
    return str(getattr(callback, "__name__", "")).strip("_").replace("_", "-")


def _epilog(examples: tuple[str, ...]) -> str | None:
    from rich.markup import escape

    if not examples:
        return None
    return "\n".join(["Examples:", *(f"  {escape(line)}" for line in examples)])
