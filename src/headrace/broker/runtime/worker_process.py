"""A child process that answers lines with lines, for work that would block the interpreter.

The child ends when its standard input closes, so it never outlives this process.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Final

import headrace
from headrace.broker.runtime.offload import Offload
from headrace.broker.runtime.worker import WorkerEnded

# The longest answer; workers stay far below it.
MAX_LINE_BYTES: Final = 16 << 20
READ_BYTES: Final = 64 << 10


class WorkerProcess:
    """One child process that runs a Headrace module with this interpreter; belongs to the loop.

    `close` can end the child at any time after its start.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, offload: Offload, module: str) -> None:
        self._loop = loop
        self._offload = offload
        self._lines = asyncio.StreamReader(limit=MAX_LINE_BYTES, loop=loop)
        self._process = process = _spawn(module)
        assert process.stdout is not None
        self._output = process.stdout
        os.set_blocking(self._output.fileno(), False)
        loop.add_reader(self._output.fileno(), self._readable)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, line: bytes) -> None:
        """Sends one line, which may be longer than the pipe's buffer."""
        assert self._process.stdin is not None
        try:
            await self._offload(_write, self._process.stdin, line)
        except BrokenPipeError:
            raise WorkerEnded(f"the worker {self.pid} has ended") from None

    async def receive(self) -> bytes:
        """The next line; raises `WorkerEnded` if the child has ended."""
        line = await self._lines.readline()
        if not line.endswith(b"\n"):
            raise WorkerEnded(f"the worker {self.pid} has ended")
        return line

    def close(self) -> None:
        """Ends the child at once."""
        self._loop.remove_reader(self._output.fileno())
        self._output.close()
        _end(self._process)

    def _readable(self) -> None:
        try:
            data = os.read(self._output.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._lines.feed_data(data)
        else:
            self._loop.remove_reader(self._output.fileno())
            self._lines.feed_eof()


def _spawn(module: str) -> "subprocess.Popen[bytes]":
    root = str(Path(headrace.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def _write(pipe: IO[bytes], line: bytes) -> None:
    pipe.write(line)
    pipe.flush()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    try:
        process.stdin.close()
    except BrokenPipeError:
        return  # the child ended while a line was pending
