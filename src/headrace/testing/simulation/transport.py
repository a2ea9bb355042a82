"""One end of a simulated connection: an asyncio transport for `Protocol` and `BufferedProtocol`."""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal

from headrace.storage.files.filesystem import Buffer
from headrace.testing.simulation.loop import ProcessLoop

if TYPE_CHECKING:
    from headrace.testing.simulation.network import Network

DATA: Final = "data"
END: Final = "end"
RESET: Final = "reset"
Item = Literal["data", "end", "reset"]

SOCKET_BUFFER_BYTES: Final = 256 * 1024
"""The bytes that the two kernels buffer before the sender's transport does."""

DEFAULT_HIGH_WATER_BYTES: Final = 64 * 1024


class SimulatedTransport(asyncio.Transport):
    """Belongs to one process; `peer` is the other end. `gone` is set when reading has ended."""

    peer: "SimulatedTransport"

    def __init__(
        self, network: "Network", loop: ProcessLoop, here: tuple[str, int], there: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": here, "peername": there, "socket": None})
        self.loop = loop
        self.gone = False
        self.last_arrival_s = 0.0  # arrival time of the last data at the other end
        self.stuck: list[Callable[[], None]] = []
        self._network = network
        self._protocol: asyncio.BaseProtocol | None = None
        self._inbox: deque[tuple[Item, bytes]] = deque()
        self._reading = True
        self._read_due = False
        self._closing = False
        self._ended = False  # nothing more is sent
        self._under_way_bytes = 0
        self._high = DEFAULT_HIGH_WATER_BYTES
        self._low = DEFAULT_HIGH_WATER_BYTES // 4
        self._write_paused = False

    def attach(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    def vanish(self) -> None:
        """Ends the transport because its process has ended."""
        self.gone = True
        self._inbox.clear()

    # --- reading --------------------------------------------------------------------------------

    def arrive(self, kind: Item, data: bytes = b"") -> None:
        if self.gone:
            return
        if kind == RESET:
            self._inbox.clear()  # as in a kernel, unread data is lost
        self._inbox.append((kind, data))
        self._read_soon()

    def _read_soon(self) -> None:
        if self._protocol is not None and not self._read_due and self._inbox:
            self._read_due = True
            self.loop.call_soon(self._read)

    def _read(self) -> None:
        self._read_due = False
        while self._inbox and not self.gone and not self._closing:
            kind, data = self._inbox[0]
            if kind == RESET:
                reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                self._lose(reset)
                return
            if not self._reading:
                return
            self._inbox.popleft()
            if kind == DATA:
                self._receive(data)
                self.peer.taken(len(data))
            elif not self._end_received():
                self.close()

    def _receive(self, data: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.Protocol):
            protocol.data_received(data)
            return
        assert isinstance(protocol, asyncio.BufferedProtocol)
        view = memoryview(data)
        while view and not self.gone and not self._closing:
            if not self._reading:
                self._inbox.appendleft((DATA, bytes(view)))
                self.peer.taken(-len(view))
                return
            buffer = memoryview(protocol.get_buffer(len(view))).cast("B")
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            protocol.buffer_updated(size)
            view = view[size:]

    def _end_received(self) -> bool:
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        return bool(protocol.eof_received())

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._read_soon()

    # --- writing --------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        if self._ended or self._closing or self.gone or not data:
            return
        self._under_way_bytes += len(data)
        self._network.send(self, DATA, bytes(data))
        if not self._write_paused and self.get_write_buffer_size() > self._high:
            self._write_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def taken(self, size: int) -> None:
        """Called when the program on the other side has read these bytes."""
        self._under_way_bytes -= size
        if self._write_paused and self.get_write_buffer_size() <= self._low:
            self._write_paused = False
            self.loop.call_soon(self._resume_writing)

    def _resume_writing(self) -> None:
        if not self.gone and self._protocol is not None:
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, self._under_way_bytes - SOCKET_BUFFER_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = DEFAULT_HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (self._low, self._high)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._ended and not self._closing and not self.gone:
            self._ended = True
            self._network.send(self, END, b"")

    # --- ends -----------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing and not self.gone:
            self.write_eof()
            self._lose(None)

    def _lose(self, why: Exception | None) -> None:
        self._closing = True
        self.gone = True
        self._inbox.clear()
        self._network.forget(self)
        self.loop.call_soon(self._lost, why)

    def _lost(self, why: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(why)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol
