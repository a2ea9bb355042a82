"""A raw connection over TLS, logged in with SASL."""

import ssl
from pathlib import Path

from headrace.client.login.security import Credentials
from headrace.protocol.errors import ErrorCode
from support.wire.connection import ConnectionEnded, Wire
from support.wire.sasl import log_in


class SecureWire(Wire):
    """Without credentials, the connection is encrypted and not yet logged in."""

    def __init__(self, bootstrap: str, ca: Path, credentials: Credentials | None = None) -> None:
        super().__init__(bootstrap)
        context = ssl.create_default_context(cafile=ca)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        if credentials is not None:
            accepted = log_in(self, credentials)
            assert accepted.error_code == ErrorCode.NONE, accepted

    def ends(self) -> bool:
        try:
            return super().ends()
        except ssl.SSLError:
            return True

    def _receive(self, size: int) -> bytes:
        try:
            return super()._receive(size)
        except ssl.SSLError as error:
            raise ConnectionEnded(str(error)) from None
