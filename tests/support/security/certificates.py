"""A certificate authority for tests: keys on elliptic curves, because RSA keys take long to make.

    authority = CertificateAuthority(directory)
    server = authority.issue("localhost", sans=["localhost", "127.0.0.1"])
    alice = authority.issue("alice", organization="Example")

Every certificate is written in the formats that clients and brokers read.
"""

import datetime as dt
import ipaddress
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR: Final = dt.timedelta(days=30)
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Issued:
    """One certificate with its key; `chain` and `key` are PEM texts, the others are files."""

    name: str
    chain: str
    key: str
    certificate_file: Path
    """The certificate and its issuers in PEM."""
    key_file: Path
    """The key in PEM (PKCS #8), without a password."""
    keystore_file: Path
    """The key, the certificate and its issuers in one PEM file, as Kafka reads it."""
    ca_file: Path
    _directory: Path
    _certificate: x509.Certificate
    _issuer: x509.Certificate
    _private_key: ec.EllipticCurvePrivateKey

    def pkcs12(self, password: str) -> Path:
        """A PKCS #12 file with the key, its certificate and the issuer."""
        path = self._directory / f"{self.name}.p12"
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                self.name.encode(),
                self._private_key,
                self._certificate,
                [self._issuer],
                serialization.BestAvailableEncryption(password.encode()),
            )
        )
        return path

    def encrypted_key(self, password: str) -> str:
        """The key as an encrypted PEM text."""
        return self._private_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        ).decode()

    @property
    def der(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.DER)


class CertificateAuthority:
    """Issues certificates; `ca_file` and `ca` are its own certificate."""

    def __init__(self, directory: Path, name: str = "Test CA") -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            _builder(subject, subject, self._key, VALID_FOR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(_key_id(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = _pem(self._certificate)
        self.ca_file = directory / f"ca-{next(self._numbers)}.pem"
        self.ca_file.write_text(self.ca)

    def issue(
        self,
        common_name: str,
        *,
        sans: Sequence[str] = LOCAL_NAMES,
        organization: str | None = None,
        subject: x509.Name | None = None,
        valid_for: dt.timedelta = VALID_FOR,
    ) -> Issued:
        """A certificate for a server and a client. With a negative `valid_for`, it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        if subject is None:
            attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
            if organization is not None:
                attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
            subject = x509.Name(attributes)
        builder = (
            _builder(subject, self._certificate.subject, key, valid_for)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_BOTH_SIDES, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if sans:
            names = x509.SubjectAlternativeName([_general_name(name) for name in sans])
            builder = builder.add_extension(names, critical=False)
        return self._written(common_name, key, builder.sign(self._key, hashes.SHA256()))

    def _written(
        self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
    ) -> Issued:
        directory = self._directory / f"{next(self._numbers)}-{name}"
        directory.mkdir()
        chain = _pem(certificate) + self.ca
        key_text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
        texts = {
            "certificate.pem": chain,
            "key.pem": key_text,
            "keystore.pem": key_text + chain,
        }
        for file_name, text in texts.items():
            (directory / file_name).write_text(text)
        return Issued(
            name,
            chain,
            key_text,
            directory / "certificate.pem",
            directory / "key.pem",
            directory / "keystore.pem",
            self.ca_file,
            directory,
            certificate,
            self._certificate,
            key,
        )


_CA_USAGE: Final = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
_BOTH_SIDES: Final = x509.ExtendedKeyUsage(
    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    valid_for: dt.timedelta,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    ends = now + valid_for
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - dt.timedelta(days=1))
        .not_valid_after(ends)
    )


def _key_id(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
