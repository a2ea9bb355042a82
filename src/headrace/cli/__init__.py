"""The `headrace` command.

`headrace up` is on the clock: a command line library costs more to import than the whole broker
takes to start, so a plain `up` is read here by hand and everything else (help, mistakes, other
commands) goes to the full command line, which reads the same table of options.
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
    if words[:1] == ["up"]:
        gc.disable()  # nothing dies while modules load; on again once the broker runs
        from headrace.cli.options import parse_up

        options = parse_up(words[1:])
        if options is not None:
            from headrace.cli.up import up

            return up(options)
        gc.enable()
    from headrace.cli.app import run

    return run(words)
