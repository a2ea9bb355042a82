"""The same TLS and SASL for both peers: one certificate, one user, TLS 1.3 only.

Each peer gets a second listener with SASL_SSL for the load, and keeps the plain one for the probe
that times its start. Which cipher suite a peer chooses is checked before anything is measured.
"""

import socket
import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from bench.wire import Wire, WireError
from headrace.certificate_files import CertificateFiles
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

PROTOCOL = "SASL_SSL"
MECHANISM = "PLAIN"  # the mechanism costs time at the login only
USER = "bench"
PASSWORD = "bench"
TLS_VERSION = "TLSv1.3"
CIPHER = "TLS_AES_256_GCM_SHA384"  # what OpenSSL and Java choose first
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TIMEOUT_S = 10.0
SASL_AUTHENTICATE_VERSION = 2


class OtherCipherError(Exception):
    """A peer does not use the cipher suite of the comparison."""


@dataclass(frozen=True, slots=True)
class Security:
    files: CertificateFiles

    @classmethod
    def create(cls, folder: Path) -> Self:
        files = CertificateFiles(folder)
        files.issue_server()
        return cls(files)

    @property
    def broker_settings(self) -> dict[str, str]:
        prefix = f"listener.name.{PROTOCOL.lower()}"
        return {
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": MECHANISM,
            f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": f'{LOGIN} user_{USER}="{PASSWORD}";',
            "ssl.enabled.protocols": TLS_VERSION,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.files.keystore()),
        }

    @property
    def client_settings(self) -> dict[str, str]:
        """For librdkafka."""
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.files.ca),
        }

    def connect(self, address: str, user: str = USER, password: str = PASSWORD) -> Wire:
        """A connection that has logged in."""
        context = ssl.create_default_context(cafile=str(self.files.ca))
        host = address.rpartition(":")[0]
        wire = Wire(address, wrap=partial(context.wrap_socket, server_hostname=host))
        wire.call(SaslHandshakeRequest(mechanism=MECHANISM), SaslHandshakeResponse, 1)
        token = f"\0{user}\0{password}".encode()
        login = SaslAuthenticateRequest(auth_bytes=token)
        answer = wire.call(login, SaslAuthenticateResponse, SASL_AUTHENTICATE_VERSION)
        if answer.error_code:
            wire.close()
            raise WireError(f"login failed: {answer.error_message}")
        return wire

    def check(self, host: str, port: int) -> None:
        """Raises `OtherCipherError` if a client of OpenSSL gets another version or cipher suite."""
        context = ssl.create_default_context(cafile=str(self.files.ca))
        with (
            socket.create_connection((host, port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            found = secured.version(), (secured.cipher() or ("",))[0]
        if found != (TLS_VERSION, CIPHER):
            raise OtherCipherError(f"{host}:{port} uses {found}, not {TLS_VERSION} and {CIPHER}")
