"""The `headrace` command.

A broker must start fast, and importing a command line library takes longer than starting the whole
broker. This module therefore parses a plain `up` or `broker start` itself. Everything else (help,
errors, other commands) goes to the full command line, which reads the same tables of options.
"""

import gc
import sys
from collections.abc import Sequence

INTERRUPTED = 130  # the shell's exit code for a process that Ctrl-C ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        return _run_command(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # outside of the command, which handles it itself
        return INTERRUPTED


def _run_command(words: list[str]) -> int:
    if words[:1] == ["up"] or words[:2] == ["broker", "start"]:
        gc.disable()  # imports create no garbage; enabled again when the broker runs
        from headrace.cli.broker.options import parse_start, parse_up

        options = parse_up(words[1:]) if words[0] == "up" else parse_start(words[2:])
        if options is not None:
            from headrace.cli.broker.up import start, up

            return up(options) if words[0] == "up" else start(options)
        gc.enable()
    from headrace.cli.app import run

    return run(words)
