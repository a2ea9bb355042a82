"""Single keys from a terminal, without Enter."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

READ_BYTES: Final = 64
NEXT_VIEW: Final = ("\t", "\x1b[C")
"""Tab, arrow right."""
PREVIOUS_VIEW: Final = ("\x1b[Z", "\x1b[D")
"""Shift-Tab, arrow left."""


@contextmanager
def keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Calls `pressed` with each key, on the event loop; the terminal is restored at the end.

    Ctrl-C remains a signal. Without a terminal as stdin, no key arrives.
    """
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    saved = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in split_keys(os.read(descriptor, READ_BYTES).decode("utf-8", "replace")):
            pressed(key)

    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, saved)


def split_keys(text: str) -> Iterator[str]:
    """The keys in what a terminal has sent: an arrow key is one key of three characters."""
    while text:
        size = 3 if text.startswith("\x1b[") else 1
        yield text[:size]
        text = text[size:]
