"""The raw wire protocol through TLS."""

import socket
import ssl

from support.security.certificates import CertificateAuthority, Issued
from support.wire.connection import TIMEOUT_S, Wire


def client_context(
    authority: CertificateAuthority, identity: Issued | None = None
) -> ssl.SSLContext:
    """Trusts the authority, and shows the certificate of `identity`."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    if identity is not None:
        context.load_cert_chain(identity.certificate_file, identity.key_file)
    return context


class TlsWire(Wire):
    """A connection to a listener with TLS on this machine."""

    def __init__(
        self,
        port: int,
        context: ssl.SSLContext,
        *,
        server_name: str = "localhost",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._correlation_id = 0
        plain = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        try:
            self.socket: ssl.SSLSocket = context.wrap_socket(plain, server_hostname=server_name)
        except BaseException:
            plain.close()
            raise

    @property
    def certificate(self) -> bytes:
        """The broker's certificate in DER."""
        shown = self.socket.getpeercert(binary_form=True)
        assert shown is not None
        return shown
