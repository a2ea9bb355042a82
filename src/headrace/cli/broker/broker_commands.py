"""`headrace up` and `headrace broker start`, read by the full command line."""

from enum import Enum
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from headrace.cli.broker.options import (
    MAX_PORT,
    START_OPTIONS,
    UP_OPTIONS,
    Option,
    UpOptions,
    http_listener,
    is_setting,
)


def up_options(given: dict[str, object]) -> UpOptions:
    """The options of `up` from Typer's values. Raises `BadParameter` if they are invalid."""
    values = {"secure": False, **given}
    if values["ephemeral"] and values["data"] is not None:
        raise typer.BadParameter("--ephemeral and --data exclude each other")
    for option in UP_OPTIONS:
        if values[option.name] == "":
            raise typer.BadParameter(f"{option.flag} is empty")
        text = values[option.name]
        if option.kind == "address" and text is not None and http_listener(str(text)) is None:
            raise typer.BadParameter(f"{option.flag} takes [HOST:]PORT, not {text!r}")
        if option.kind == "path" and values[option.name] is not None:
            values[option.name] = Path(str(values[option.name]))
    settings = values["set"]
    assert isinstance(settings, list)
    for setting in settings:
        if not is_setting(setting):
            raise typer.BadParameter(f"--set takes NAME=VALUE, not {setting!r}")
    values["set"] = tuple(settings)
    chosen = values["log_format"]
    values["log_format"] = chosen.value if isinstance(chosen, Enum) else chosen
    return UpOptions(**values)  # type: ignore[arg-type]  # the table's kinds are its types


def _start(**values: object) -> None:
    """Start a broker with the settings of a server.properties file."""
    if values["config"] is None:
        raise typer.BadParameter("--config FILE is required")
    unsaid = UpOptions()._asdict() | {"set": []}
    options = up_options(unsaid | values)
    from headrace.cli.broker.up import start

    raise typer.Exit(start(options))


def _up(**values: object) -> None:
    """Start a broker on this machine."""
    options = up_options(values)
    from headrace.cli.broker.up import up

    raise typer.Exit(up(options))


def _choice(option: Option) -> type[Enum]:
    return cast("type[Enum]", Enum(option.name, {choice: choice for choice in option.choices}))


def _annotation(option: Option) -> object:
    show = option.shown_default
    info = typer.Option(
        option.flag,
        help=option.help,
        metavar=option.metavar or "|".join(option.choices) or None,
        show_default=show if show is not None else False,
        min=0 if option.kind == "port" else None,
        max=MAX_PORT if option.kind == "port" else None,
    )
    types: dict[str, object] = {
        "path": str | None,
        "text": str | None,
        "port": int | None,
        "address": str | None,
        "flag": bool,
        "choice": _choice(option) | None,
        "repeated": list[str],
    }
    return Annotated[types[option.kind], info]


def _parameter(option: Option) -> Parameter:
    default = getattr(UpOptions(), option.name)
    if option.kind == "repeated":
        default = []
    return Parameter(
        option.name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=_annotation(option),
    )


# Typer reads a command's options from its signature; these signatures come from the tables.
UP_PARAMETERS: Final = [_parameter(option) for option in UP_OPTIONS]
PLAINTEXT_UP_PARAMETERS: Final = [each for each in UP_PARAMETERS if each.name != "secure"]
"""The options of `up` for commands whose own clients connect without TLS."""
_START_PARAMETERS: Final = [_parameter(option) for option in START_OPTIONS]


def register(app: typer.Typer) -> None:
    """Adds `up` and `broker start`."""
    _up.__signature__ = Signature(UP_PARAMETERS)  # type: ignore[attr-defined]
    app.command("up")(_up)
    _start.__signature__ = Signature(_START_PARAMETERS)  # type: ignore[attr-defined]
    broker = typer.Typer(help="Start one broker of a cluster.", no_args_is_help=True)
    broker.command("start")(_start)
    # Without a callback, Typer replaces a group that has one command by that command.
    broker.callback()(lambda: None)
    app.add_typer(broker, name="broker")
