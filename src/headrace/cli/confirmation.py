"""One rule for every command that deletes, moves or stops something.

    with --execute    the command acts at once
    on a terminal     the command shows its plan and asks
    in a script       the command shows its plan, changes nothing and exits with code 0

A command takes `execute: Execute = False` and calls `is_approved` with its plan.
"""

import sys
from typing import Annotated, Final

import typer

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.output import Block, Format, Output, remark

EXECUTION_PANEL: Final = "Execution"

Execute = Annotated[
    bool,
    typer.Option(
        "--execute",
        help="Act at once. Without --execute, the command shows its plan; on a terminal it asks "
        "for confirmation, in a script it changes nothing.",
        rich_help_panel=EXECUTION_PANEL,
    ),
]
OldYes = Annotated[bool, typer.Option("--yes", "-y", hidden=True)]
"""The deprecated name of --execute."""


def is_approved(output: Output, execute: bool, action: str, facts: object, *blocks: Block) -> bool:
    """Whether to act. Shows the plan first, unless --execute was given.

    `action` completes "Add --execute to ...", for example "delete 2 topics". Raises `CommandFailed`
    if the user answers no.
    """
    if execute:
        return True
    output.show(facts, *blocks)
    if not _can_confirm(output):
        remark(f"Nothing was changed. Add --execute to {action}.")
        return False
    if typer.confirm(f"{action[:1].upper()}{action[1:]}?", err=True):
        return True
    raise CommandFailed("Nothing was changed.")


def _can_confirm(output: Output) -> bool:
    """Whether a user sees the plan and can answer. JSON and YAML are for programs."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return output.form is Format.TEXT and all(stream.isatty() for stream in streams)
