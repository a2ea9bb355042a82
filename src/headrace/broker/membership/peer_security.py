"""How this broker connects to other brokers: with the security protocol of their common listener.

It shows the certificate of that listener, verifies the host name of the other broker unless
`ssl.endpoint.identification.algorithm` is empty, and logs in with the `sasl.jaas.config` of
`sasl.mechanism.inter.broker.protocol`.
"""

import ssl
from collections.abc import Callable
from random import Random
from typing import Final

from headrace.client.errors import ConnectionFailed
from headrace.client.login.authentication import authenticate
from headrace.client.login.security import Credentials, Mechanism
from headrace.client.network.connection import Address, ClientConnection, connect
from headrace.client.network.versions import VersionRanges
from headrace.cluster.inter_broker_login import InterBrokerLogin
from headrace.cluster.listeners import Listener
from headrace.protocol.api import APIS, ApiKey

_AUTHENTICATE: Final = APIS[ApiKey.SASL_AUTHENTICATE]
_VERSIONS: Final = VersionRanges(
    {_AUTHENTICATE.key: (_AUTHENTICATE.min_version, _AUTHENTICATE.max_version)}
)
"""Brokers of a cluster do not negotiate versions."""


class SecurePeerConnector:
    """Opens connections to a listener that is not PLAINTEXT."""

    def __init__(
        self,
        listener: Listener,
        tls_context: Callable[[], ssl.SSLContext | None],
        login: InterBrokerLogin | None,
        random: Random,
    ) -> None:
        """`tls_context` returns the newest one."""
        self._listener = listener
        self._tls_context = tls_context
        self._credentials = (
            Credentials(Mechanism(login.mechanism), login.username, login.password)
            if login is not None
            else None
        )
        self._random = random

    async def __call__(
        self, address: Address, /, *, client_id: str, timeout_s: float
    ) -> ClientConnection:
        context = self._tls_context() if self._listener.uses_tls else None
        if context is None and self._listener.uses_tls:
            raise ConnectionFailed(f"listener {self._listener.name} has no TLS stores yet")
        made = await connect(address, client_id=client_id, timeout_s=timeout_s, tls=context)
        if self._credentials is None:
            return made
        try:
            await authenticate(
                made, _VERSIONS, self._credentials, random=self._random, timeout_s=timeout_s
            )
        except BaseException:
            made.abort()
            raise
        return made
