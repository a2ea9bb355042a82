"""The transport of TLS connections keeps asyncio's promises, whatever the client's pace."""

import asyncio
import os
import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from headrace.broker.tls import tls_transport
from headrace.broker.tls.tls_transport import HandshakeState, TlsTransport
from headrace.process_tuning import loop_factory
from support.security.certificates import CertificateAuthority
from support.security.key_updates import key_updates
from support.security.tls_wire import client_context

DEADLINE_S = 20.0
MEGABYTE = 1 << 20


class Recorder(asyncio.BufferedProtocol):
    """Keeps what it receives and every call of the transport."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.calls: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.buffer = bytearray(4096)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return False

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost.set_result(exc)


class Pair:
    """A transport with its protocol, and the client at the other end in a thread."""

    def __init__(self, transport: TlsTransport, protocol: Recorder, client: ssl.SSLSocket) -> None:
        self.transport = transport
        self.protocol = protocol
        self.client = client

    async def client_reads(self, size: int) -> bytes:
        def read() -> bytes:
            data = bytearray()
            while len(data) < size:
                got = self.client.recv(size - len(data))
                if not got:
                    break
                data += got
            return bytes(data)

        return await asyncio.wait_for(asyncio.to_thread(read), DEADLINE_S)

    async def client_sends(self, data: bytes) -> None:
        await asyncio.wait_for(asyncio.to_thread(self.client.sendall, data), DEADLINE_S)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - another thread makes it true
                await asyncio.sleep(0.001)


@asynccontextmanager
async def connected(authority: CertificateAuthority) -> AsyncIterator[Pair]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("broker").keystore_file)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        plain = socket.create_connection(listening.getsockname(), timeout=DEADLINE_S)
        accepted, _ = listening.accept()
    accepted.setblocking(False)
    transport = TlsTransport(asyncio.get_running_loop(), accepted, context, ssl.MemoryBIO())
    shaking = asyncio.create_task(
        asyncio.to_thread(client_context(authority).wrap_socket, plain, server_hostname="localhost")
    )
    async with asyncio.timeout(DEADLINE_S):
        while transport.continue_handshake() is not HandshakeState.COMPLETE:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    client = await shaking
    protocol = Recorder()
    transport.serve(protocol)
    try:
        yield Pair(transport, protocol, client)
    finally:
        transport.abort()
        client.close()
        await asyncio.sleep(0)


@pytest.fixture(params=[asyncio.SelectorEventLoop, loop_factory()], ids=["asyncio", "uvloop"])
def run(
    request: pytest.FixtureRequest, authority: CertificateAuthority
) -> Callable[[Callable[[Pair], object]], None]:
    def run_scenario(scenario: Callable[[Pair], object]) -> None:
        async def main() -> None:
            async with connected(authority) as pair:
                await scenario(pair)  # type: ignore[misc]

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())

    return run_scenario


Run = Callable[[Callable[[Pair], object]], None]


def test_all_bytes_arrive_in_order_while_the_client_is_slow(run: Run) -> None:
    async def scenario(pair: Pair) -> None:
        parts = [os.urandom(size) for size in (1, 5 * MEGABYTE, 17, 3 * MEGABYTE, 0, 40_000)]
        pair.transport.writelines(parts[:3])
        for part in parts[3:]:
            pair.transport.write(part)
        assert pair.protocol.calls == ["made", "pause"]
        assert pair.transport.get_write_buffer_size() > MEGABYTE
        assert await pair.client_reads(sum(map(len, parts))) == b"".join(parts)
        await pair.until(lambda: not pair.transport.get_write_buffer_size())
        assert pair.protocol.calls == ["made", "pause", "resume"]

    run(scenario)


def test_a_close_sends_what_was_written_and_then_tells_the_client(run: Run) -> None:
    async def scenario(pair: Pair) -> None:
        data = os.urandom(3 * MEGABYTE)
        pair.transport.write(data)
        pair.transport.close()
        pair.transport.write(b"too late")
        assert await pair.client_reads(len(data) + 1) == data
        assert await asyncio.wait_for(pair.protocol.lost, DEADLINE_S) is None
        assert pair.protocol.calls[-1] == "lost"

    run(scenario)


def test_the_end_of_writing_leaves_the_connection_open_for_reading(run: Run) -> None:
    async def scenario(pair: Pair) -> None:
        pair.transport.write(b"last")
        pair.transport.write_eof()
        assert await pair.client_reads(100) == b"last"
        assert "lost" not in pair.protocol.calls

    run(scenario)


def test_an_abort_drops_what_was_not_sent_and_reports_it_once(run: Run) -> None:
    async def scenario(pair: Pair) -> None:
        pair.transport.write(os.urandom(5 * MEGABYTE))
        pair.transport.abort()
        pair.transport.abort()
        assert await asyncio.wait_for(pair.protocol.lost, DEADLINE_S) is None
        assert pair.transport.get_write_buffer_size() == 0
        assert pair.protocol.calls.count("lost") == 1

    run(scenario)


def test_nothing_is_read_while_reading_is_paused(run: Run) -> None:
    async def scenario(pair: Pair) -> None:
        data = os.urandom(300_000)
        pair.transport.pause_reading()
        sending = asyncio.create_task(pair.client_sends(data))
        await pair.until(lambda: bool(select.select([pair.transport], [], [], 0)[0]))
        assert not pair.protocol.received
        pair.transport.resume_reading()
        await sending
        await pair.until(lambda: len(pair.protocol.received) == len(data))
        assert pair.protocol.received == data

    run(scenario)


def test_the_end_of_the_client_ends_the_connection(run: Run) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.client_sends(b"bye")
        pair.client.close()
        assert await asyncio.wait_for(pair.protocol.lost, DEADLINE_S) is None
        assert pair.protocol.received == b"bye"
        assert pair.protocol.calls == ["made", "eof", "lost"]

    run(scenario)


def test_key_updates_without_data_do_not_stop_the_event_loop(run: Run) -> None:
    """OpenSSL would go on reading from a socket, in one call, for as long as they arrive."""
    updates, update_bytes = 10_000, 27

    async def scenario(pair: Pair) -> None:
        pair.transport.pause_reading()
        assert await asyncio.to_thread(key_updates(pair.client), updates) == updates
        await pair.client_sends(b"data")
        pair.transport.resume_reading()
        turns = 0
        async with asyncio.timeout(DEADLINE_S):
            while pair.protocol.received != b"data":
                await asyncio.sleep(0)
                turns += 1
        assert turns >= updates * update_bytes // tls_transport.RECEIVE_BYTES

    run(scenario)


def test_a_client_that_does_not_read_answers_to_key_updates_is_disconnected(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "MAX_UNSENT_MESSAGES_BYTES", 1000)

    async def scenario(pair: Pair) -> None:
        buffers = pair.transport.get_extra_info("socket"), pair.client
        for each, option in zip(buffers, (socket.SO_SNDBUF, socket.SO_RCVBUF), strict=True):
            each.setsockopt(socket.SOL_SOCKET, option, 1)
        update = key_updates(pair.client, asks_for_answers=True)
        await asyncio.wait_for(asyncio.to_thread(update, 5_000), DEADLINE_S)
        assert await asyncio.wait_for(pair.protocol.lost, DEADLINE_S) is not None

    run(scenario)
