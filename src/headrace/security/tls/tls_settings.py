"""The TLS settings of one listener, after validation."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headrace.security.tls.cipher_suites import CipherSuites
from headrace.security.tls.principal_mapping import DEFAULT, PrincipalMapping


class ClientAuth(Enum):
    """Whether clients need a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsVersion(Enum):
    """The versions that a listener can accept."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where a key store or a trust store is: in a file, or as PEM in the settings."""

    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    """The private key of a key store that is in the settings."""
    certificates: str | None = field(default=None, repr=False)
    """The certificate chain of the key, or the trusted certificates."""
    key_password: str | None = field(default=None, repr=False)

    @property
    def is_set(self) -> bool:
        return bool(self.location or self.key or self.certificates)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Equal settings give the same context as long as their files do not change."""

    listener: str
    keystore: StoreSettings = StoreSettings()
    truststore: StoreSettings = StoreSettings()
    versions: tuple[TlsVersion, ...] = (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3)
    cipher_suites: CipherSuites | None = None
    """None for those of OpenSSL."""
    client_auth: ClientAuth = ClientAuth.NONE
    principal_rules: str = DEFAULT
    verifies_host: bool = True
    """Whether a client of the listener compares the host name with the certificate."""
    allows_subject_change: bool = False
    allows_host_change: bool = False

    @property
    def principal_mapping(self) -> PrincipalMapping:
        return PrincipalMapping(self.principal_rules)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the stores are read from."""
        locations = (self.keystore.location, self.truststore.location)
        return tuple(dict.fromkeys(each for each in locations if each))


NO_STORE: Final = StoreSettings()
