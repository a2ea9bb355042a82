"""A certificate authority for development and tests. Pure: PEM in, PEM out.

Its certificates are valid for Java, OpenSSL and Go: keys on the curve P-256, version 3, the usages
of servers and clients, names in subjectAltName only. It needs `cryptography`, so the modules that
need it import it when they do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS: Final = 397
"""The longest validity that every platform accepts for a server."""
CA_VALID_DAYS: Final = 3650
RENEW_DAYS: Final = 30
DAY_MS: Final = 86_400_000
CLOCK_SKEW: Final = timedelta(hours=1)
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
CA_NAME: Final = "Headrace development CA"
MAX_NAME_LENGTH: Final = 64  # of a common name in X.509


class InvalidCertificateName(ValueError):
    """A name that a certificate cannot have."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate, its key, and the certificate of the authority, in PEM."""

    name: str
    certificate: str
    key: str = field(repr=False)
    ca: str = field(repr=False)

    @property
    def chain(self) -> str:
        """The certificate and its issuer."""
        return self.certificate + self.ca

    @property
    def keystore(self) -> str:
        """The key and the chain in one text, as `ssl.keystore.type=PEM` reads it."""
        return self.key + self.chain

    def pkcs12(self, password: str) -> bytes:
        """The same as a key store for Java."""
        key = load_pem_private_key(self.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return pkcs12.serialize_key_and_certificates(
            self.name.encode(),
            key,
            x509.load_pem_x509_certificate(self.certificate.encode()),
            [x509.load_pem_x509_certificate(self.ca.encode())],
            BestAvailableEncryption(password.encode()),
        )


class DevelopmentCA:
    """Issues certificates for brokers and clients."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, now_ms: int) -> Self:
        """A new authority with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(CA_NAME)
        builder = (
            _builder(subject, subject, key.public_key(), now_ms, CA_VALID_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: str, key: str) -> Self:
        """An authority from its PEM texts; raises ValueError if they are not those of one."""
        loaded = load_pem_private_key(key.encode(), None)
        found = x509.load_pem_x509_certificate(certificate.encode())
        if not isinstance(loaded, ec.EllipticCurvePrivateKey) or (
            found.public_key() != loaded.public_key()
        ):
            raise ValueError("the key does not belong to the certificate")
        return cls(found, loaded)

    @property
    def certificate(self) -> str:
        return self._certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key(self) -> str:
        return _key_pem(self._key)

    def truststore(self, password: str) -> bytes:
        """The authority's certificate as a PKCS12 trust store for Java."""
        trusted = pkcs12.PKCS12Certificate(self._certificate, b"headrace-ca")
        return pkcs12.serialize_java_truststore(
            [trusted], BestAvailableEncryption(password.encode())
        )

    def issue_server(self, name: str, hosts: Sequence[str], now_ms: int) -> IssuedCertificate:
        """For a broker, which also connects to other brokers, on this machine and `hosts`."""
        return self._issue(name, (*LOCAL_NAMES, *hosts), now_ms, is_server=True)

    def issue_client(self, name: str, now_ms: int) -> IssuedCertificate:
        """For a client; the principal is User:CN=`name`."""
        return self._issue(name, (), now_ms, is_server=False)

    def is_current(self, certificate: str, now_ms: int) -> bool:
        """Whether this authority issued the certificate, and it is valid for a month at least."""
        found = x509.load_pem_x509_certificate(certificate.encode())
        ends_ms = found.not_valid_after_utc.timestamp() * 1000
        try:
            found.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return ends_ms - now_ms > RENEW_DAYS * DAY_MS

    @staticmethod
    def hosts_of(certificate: str) -> list[str]:
        """The names and addresses that a certificate is valid for."""
        found = x509.load_pem_x509_certificate(certificate.encode())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [str(each.value) for each in names]

    def _issue(
        self, name: str, hosts: Sequence[str], now_ms: int, *, is_server: bool
    ) -> IssuedCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if is_server:
            usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(
                _subject(name), self._certificate.subject, key.public_key(), now_ms, VALID_DAYS
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(each) for each in dict.fromkeys(hosts)])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pem = certificate.public_bytes(Encoding.PEM).decode()
        return IssuedCertificate(name, pem, _key_pem(key), self.certificate)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_ms: int, days: int
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now - CLOCK_SKEW + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str) -> x509.Name:
    if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidCertificateName(
            f"{name!r} is not a name for a certificate: 1 to {MAX_NAME_LENGTH} printable characters"
        )
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text.encode("idna").decode())
    except ValueError as error:
        raise InvalidCertificateName(f"{text!r} is neither a host name nor an address") from error


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
