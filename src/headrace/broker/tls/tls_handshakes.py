"""The TLS handshakes that are not complete, of all listeners of a broker.

Guarantees: clients that have finished their handshakes are served while hundreds of others begin,
stop half way or never answer. A handshake costs about a millisecond of CPU, so only a few steps are
taken in each iteration of the loop. At most `MAX_HANDSHAKES` are unfinished: a further one ends the
oldest.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.broker.tls.tls_transport import HandshakeState, TlsTransport

MAX_HANDSHAKES: Final = 2000
"""A client on a slow network needs several round trips; each handshake holds some 40 KiB."""
STEPS_PER_ITERATION: Final = 4


class TlsHandshake:
    """One handshake; `abort` ends it, and its failure is reported like any other."""

    __slots__ = ("_handshakes", "complete", "failed", "transport")

    def __init__(
        self,
        handshakes: "TlsHandshakes",
        transport: TlsTransport,
        complete: Callable[[TlsTransport], None],
        failed: Callable[[str], None],
    ) -> None:
        self._handshakes = handshakes
        self.transport = transport
        self.complete = complete
        self.failed = failed

    def abort(self, reason: str) -> None:
        self._handshakes.fail(self, reason)


class TlsHandshakes:
    """Runs the handshakes on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._unfinished: dict[TlsHandshake, None] = {}  # in the order of their start
        self._ready: deque[TlsHandshake] = deque()
        self._outgoing = ssl.MemoryBIO()  # of all connections
        self._run_due = False

    def __len__(self) -> int:
        return len(self._unfinished)

    def start(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        complete: Callable[[TlsTransport], None],
        failed: Callable[[str], None],
    ) -> TlsHandshake:
        """Calls either `complete` or `failed`, later. Raises `OSError` if the client is gone."""
        transport = TlsTransport(self._loop, connected, context, self._outgoing)
        handshake = TlsHandshake(self, transport, complete, failed)
        self._unfinished[handshake] = None
        if len(self._unfinished) > MAX_HANDSHAKES:
            self.fail(next(iter(self._unfinished)), "too many unfinished handshakes")
        self._wait(handshake, HandshakeState.WANTS_READ)
        return handshake

    def abort(self, reason: str) -> None:
        for handshake in tuple(self._unfinished):
            self.fail(handshake, reason)

    def fail(self, handshake: TlsHandshake, reason: str) -> None:
        """Ends a handshake, unless it has ended."""
        if handshake in self._unfinished:
            self._stop_waiting(handshake)
            del self._unfinished[handshake]
            handshake.transport.abort()
            handshake.failed(reason)

    def _wait(self, handshake: TlsHandshake, state: HandshakeState) -> None:
        fd = handshake.transport.fileno()
        if state is HandshakeState.WANTS_READ:
            self._loop.add_reader(fd, self._add_ready, handshake)
        else:
            self._loop.add_writer(fd, self._add_ready, handshake)

    def _stop_waiting(self, handshake: TlsHandshake) -> None:
        fd = handshake.transport.fileno()
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)

    def _add_ready(self, handshake: TlsHandshake) -> None:
        self._stop_waiting(handshake)
        self._ready.append(handshake)
        self._run_soon()

    def _run_soon(self) -> None:
        if not self._run_due:
            self._run_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._run_due = False
        try:
            for _ in range(min(STEPS_PER_ITERATION, len(self._ready))):
                handshake = self._ready.popleft()
                if handshake in self._unfinished:
                    self._take_step(handshake)
        finally:  # an error of one connection must not stop the others
            if self._ready:
                self._run_soon()

    def _take_step(self, handshake: TlsHandshake) -> None:
        try:
            state = handshake.transport.continue_handshake()
        except OSError as error:
            self.fail(handshake, _reason(error))
            return
        if state is not HandshakeState.COMPLETE:
            self._wait(handshake, state)
            return
        del self._unfinished[handshake]
        handshake.complete(handshake.transport)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
