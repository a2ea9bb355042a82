"""Builds the TLS contexts of listeners and of connections between brokers from their stores.

No private key is written to a disk: OpenSSL reads it from a file in memory. A missing or wrong
password is an error, never a prompt on the terminal.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.security.tls.certificate import Certificate, read_certificate
from headrace.security.tls.der import InvalidDer
from headrace.security.tls.tls_settings import ClientAuth, StoreSettings, TlsSettings, TlsVersion
from headrace.security.tls.tls_stores import (
    MAX_STORE_BYTES,
    InvalidStore,
    KeyStore,
    pem_certificates,
    pem_key_store,
    read_key_store,
    read_trust_store,
)

_VERSIONS: Final = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}
_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class InvalidTls(Exception):
    """TLS settings or stores that cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The stores of one listener, read at one time."""

    settings: TlsSettings
    key_store: KeyStore | None
    trusted: str | None
    """Certificates in PEM; None for those that the system trusts."""

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the listener shows."""
        if self.key_store is None:
            return None
        try:
            return read_certificate(_first_der(self.key_store.chain))
        except (InvalidDer, ValueError) as error:
            reason = f"its certificate is malformed: {error}"
            raise _invalid(self.settings, "key store", reason) from error


def read_stores(settings: TlsSettings) -> TlsMaterial:
    """Reads the stores from their files or settings; raises `InvalidTls`."""
    keystore, truststore = settings.keystore, settings.truststore
    key_store, trusted = None, None
    if keystore.is_set:
        with _errors_of(settings, "key store", keystore):
            key_store = _key_store(keystore)
    if truststore.is_set:
        with _errors_of(settings, "trust store", truststore):
            trusted = _trusted(truststore)
    return TlsMaterial(settings, key_store, trusted)


def server_context(material: TlsMaterial) -> ssl.SSLContext:
    """The context for accepted connections; raises `InvalidTls`."""
    settings = material.settings
    context = _context(material, ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL 1.1.1 lets clients ask for it at will
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        # A resumed session would not be checked again after its certificate is no longer trusted.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def client_context(material: TlsMaterial) -> ssl.SSLContext:
    """The context for connections to other brokers; raises `InvalidTls`."""
    context = _context(material, ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = material.settings.verifies_host
    return context


def _context(material: TlsMaterial, protocol: int) -> ssl.SSLContext:
    settings = material.settings
    context = ssl.SSLContext(protocol)
    # Like Java: any certificate of the trust store may be the end of a chain, and authorities
    # without a key usage are accepted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.options |= ssl.OP_NO_RENEGOTIATION  # a client could ask for it again and again
    context.minimum_version = _VERSIONS[settings.versions[0]]
    context.maximum_version = _VERSIONS[settings.versions[-1]]
    if settings.cipher_suites is not None and settings.cipher_suites.tls_1_2:
        try:
            context.set_ciphers(":".join(settings.cipher_suites.tls_1_2))
        except ssl.SSLError as error:
            raise InvalidTls(
                f"listener {settings.listener}: OpenSSL supports none of ssl.cipher.suites"
            ) from error
    if material.trusted is not None:
        with _errors_of(settings, "trust store", settings.truststore):
            context.load_verify_locations(cadata=material.trusted)
    elif protocol == ssl.PROTOCOL_TLS_CLIENT:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if material.key_store is not None:
        with _errors_of(settings, "key store", settings.keystore):
            load_key_store(context, material.key_store, settings.keystore.key_password)
    return context


def load_key_store(context: ssl.SSLContext, store: KeyStore, password: str | None) -> None:
    """Loads a key and its certificates into a context; raises `ssl.SSLError`."""
    with _file_in_memory(store.key + store.chain) as path:
        # Without a callable, OpenSSL would ask for the password on the terminal.
        context.load_cert_chain(path, password=lambda: password or "")


def _key_store(store: StoreSettings) -> KeyStore:
    if store.location is None:
        return pem_key_store(store.key or "", store.certificates or "")
    return read_key_store(_read_file(store.location), store.password)


def _trusted(store: StoreSettings) -> str:
    if store.location is None:
        return pem_certificates(store.certificates or "")
    return read_trust_store(_read_file(store.location), store.password)


def _read_file(location: str) -> bytes:
    path = Path(location)
    if path.exists() and not path.is_file():
        raise InvalidStore("it is not a file")  # a pipe would block
    with path.open("rb") as file:
        contents = file.read(MAX_STORE_BYTES + 1)
    if len(contents) > MAX_STORE_BYTES:
        raise InvalidStore(f"it is larger than {MAX_STORE_BYTES} bytes")
    return contents


def _first_der(chain: str) -> bytes:
    end = "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(chain[: chain.index(end) + len(end)])


@contextmanager
def _file_in_memory(text: str) -> Iterator[str]:
    """A path to `text`, for a library that reads only files."""
    if not hasattr(os, "memfd_create"):  # macOS
        with tempfile.NamedTemporaryFile("w") as file:  # its mode is 0600
            file.write(text)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("tls")
    try:
        os.write(descriptor, text.encode("ascii"))
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextmanager
def _errors_of(settings: TlsSettings, what: str, store: StoreSettings) -> Iterator[None]:
    """Turns the errors of reading a store into one that names it."""
    where = f" {store.location}" if store.location else ""
    try:
        yield
    except InvalidStore as error:
        raise _invalid(settings, f"{what}{where}", str(error)) from error
    except ssl.SSLError as error:
        raise _invalid(settings, f"{what}{where}", _openssl_reason(error)) from error
    except OSError as error:
        raise _invalid(settings, f"{what}{where}", error.strerror or str(error)) from error
    except ValueError:  # e.g. characters that PEM does not have; it may quote parts of a key
        reason = "its contents or its password have invalid characters or are too long"
        raise _invalid(settings, f"{what}{where}", reason) from None


def _openssl_reason(error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "decrypt" in reason or "password" in reason or not error.reason:
        return "ssl.key.password is wrong or not set"
    if "key values mismatch" in reason:
        return "its first certificate does not belong to its key"
    return reason


def _invalid(settings: TlsSettings, what: str, reason: str) -> InvalidTls:
    return InvalidTls(f"listener {settings.listener}: cannot use the {what}: {reason}")


ReadStores = Callable[[TlsSettings], TlsMaterial]
