"""Unfinished handshakes are bounded, and one broken connection stops no other."""

import asyncio
import socket
import ssl
from collections.abc import Callable

import pytest

from headrace.broker.tls import tls_handshakes
from headrace.broker.tls.tls_handshakes import TlsHandshakes
from headrace.broker.tls.tls_transport import TlsTransport
from support.security.certificates import CertificateAuthority
from support.security.tls_wire import client_context

DEADLINE_S = 10.0


class Outcomes:
    """Accepts connections and keeps the outcomes of their handshakes."""

    def __init__(self, authority: CertificateAuthority, listening: socket.socket) -> None:
        self.handshakes = TlsHandshakes(asyncio.get_running_loop())
        self.failed: list[str] = []
        self.complete: list[TlsTransport] = []
        self.address = listening.getsockname()
        self._listening = listening
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(authority.issue("broker").keystore_file)

    def accept(self, complete: Callable[[TlsTransport], None] | None = None) -> socket.socket:
        """The client's end of a new connection."""
        client = socket.create_connection(self.address, timeout=DEADLINE_S)
        accepted, _ = self._listening.accept()
        accepted.setblocking(False)
        self.handshakes.start(
            accepted, self._context, complete or self.complete.append, self.failed.append
        )
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - another thread makes it true
                await asyncio.sleep(0.001)

    def close(self) -> None:
        self.handshakes.abort("the test ends")
        for transport in self.complete:
            transport.abort()


def test_a_further_handshake_ends_the_oldest(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_handshakes, "MAX_HANDSHAKES", 2)

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            outcomes = Outcomes(authority, listening)
            clients = [outcomes.accept() for _ in range(3)]
            assert len(outcomes.handshakes) == 2
            assert outcomes.failed == ["too many unfinished handshakes"]
            assert clients[0].recv(1) == b""
            outcomes.close()
            for client in clients:
                client.close()

    asyncio.run(scenario())


def test_an_error_of_one_connection_does_not_stop_the_handshakes_of_others(
    authority: CertificateAuthority,
) -> None:
    async def scenario() -> None:
        def fail(transport: TlsTransport) -> None:
            transport.abort()
            raise ValueError("a bug")

        errors: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            outcomes = Outcomes(authority, listening)
            clients = [outcomes.accept(fail), outcomes.accept(), outcomes.accept()]
            context = client_context(authority)
            shaking = [
                asyncio.create_task(
                    asyncio.to_thread(context.wrap_socket, each, server_hostname="localhost")
                )
                for each in clients
            ]
            await outcomes.until(lambda: len(outcomes.complete) == 2 and bool(errors))
            for done in await asyncio.gather(*shaking, return_exceptions=True):
                if isinstance(done, socket.socket):
                    done.close()
            outcomes.close()

    asyncio.run(scenario())


def test_a_client_that_is_gone_ends_its_handshake(authority: CertificateAuthority) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            outcomes = Outcomes(authority, listening)
            outcomes.accept().close()
            await outcomes.until(lambda: bool(outcomes.failed))
            assert len(outcomes.handshakes) == 0

    asyncio.run(scenario())
