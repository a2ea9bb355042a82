"""The `headrace` command.

Starting a broker is on the clock: a command line library costs more to import than the whole
broker takes to start, so a plain `up` or `broker start` is read here by hand and everything else
(help, mistakes, other commands) goes to the full command line, which reads the same tables.
"""

import gc
import sys
from collections.abc import Sequence

INTERRUPTED = 130  # the shell's exit code for a process that Ctrl-C ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the result is the exit code."""
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # before or after the time in which a command listens to it
        return INTERRUPTED


def _run(words: list[str]) -> int:
    if words[:1] == ["up"] or words[:2] == ["broker", "start"]:
        gc.disable()  # nothing dies while modules load; on again once the broker runs
        from headrace.cli.broker.options import parse_start, parse_up

        options = parse_up(words[1:]) if words[0] == "up" else parse_start(words[2:])
        if options is not None:
            from headrace.cli.broker.up import start, up

            return up(options) if words[0] == "up" else start(options)
        gc.enable()
    from headrace.cli.app import run

    return run(words)
