"""The clients of an SSL listener: each is the principal that its certificate names."""

from dataclasses import replace

from headrace.broker.network.authentication import AuthenticationRefused
from headrace.broker.network.connection import Connection, Dispatch
from headrace.clock import Clock
from headrace.security.principal import user
from headrace.security.tls.certificate import read_certificate
from headrace.security.tls.der import InvalidDer
from headrace.security.tls.principal_mapping import NoMatchingRule, PrincipalMapping


class CertificateAuthentication:
    """A client without a certificate is anonymous, where none is required."""

    def __init__(self, dispatch: Dispatch, mapping: PrincipalMapping, clock: Clock) -> None:
        self._dispatch = dispatch
        self._mapping = mapping
        self._clock = clock

    def start(self, connection: Connection) -> Dispatch:
        if connection.peer_certificate is not None:
            principal = user(self._name_of(connection.peer_certificate))
            connection.session = replace(connection.session, principal=principal)
        return self._dispatch

    def _name_of(self, der: bytes) -> str:
        try:
            certificate = read_certificate(der)
            # OpenSSL checks it in full handshakes; a session of TLS 1.2 may be resumed later.
            if certificate.not_after.timestamp() * 1000 < self._clock.wall_ms():
                raise AuthenticationRefused(f"the certificate of {certificate.subject} has expired")
            return self._mapping.name_of(certificate.subject)
        except InvalidDer as error:
            raise AuthenticationRefused(f"cannot read the certificate: {error}") from error
        except NoMatchingRule as error:
            raise AuthenticationRefused(f"ssl.principal.mapping.rules: {error}") from error
