"""TLS contexts from files or PEM text, and PEM text from files.

The content of a file decides its format: PEM, or PKCS12 (which needs `cryptography`). Java's own
format JKS is refused, with the command that converts it.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headrace.client.errors import BadSecurityFiles
from headrace.client.login.security import Tls
from headrace.security.tls.tls_stores import (
    MAX_STORE_BYTES,
    InvalidStore,
    KeyStore,
    pem_certificates,
    pem_key_store,
    read_key_store,
    read_trust_store,
)


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The context for `loop.create_connection`; raises `BadSecurityFiles` for unusable files."""
    identity = None
    try:
        trusted = _trusted_pem(tls)
        context = ssl.create_default_context(cadata=trusted)
        # Python 3.13 sets it: it refuses CAs without keyUsage, which Java and OpenSSL accept.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        identity = _identity(tls)
        if identity is not None:
            with _as_file(identity.chain) as chain, _as_file(identity.key) as key:
                # Without a password, OpenSSL would ask for it on the terminal.
                context.load_cert_chain(chain, key, tls.key_password or "")
    except (OSError, ssl.SSLError, ValueError) as error:
        names = [name for name in (tls.ca, tls.certificate, tls.key) if name]
        encrypted = identity is not None and "ENCRYPTED" in identity.key
        reason = "the key's password is wrong or missing" if encrypted else error
        raise BadSecurityFiles(
            f"cannot load the TLS files ({', '.join(names) or 'PEM settings'}): {reason}"
        ) from error
    context.check_hostname = tls.check_hostname
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    return context


def inlined(tls: Tls) -> Tls:
    """The same settings with the files' contents, for processes on other machines."""
    try:
        trusted, identity = _trusted_pem(tls), _identity(tls)
    except (OSError, ValueError) as error:
        raise BadSecurityFiles(f"cannot read the TLS files: {error}") from error
    return replace(
        tls,
        ca=None,
        ca_password=None,
        certificate=None,
        key=None,
        store_password=None,
        ca_pem=trusted,
        certificate_pem=identity.chain if identity else None,
        key_pem=identity.key if identity else None,
    )


def _trusted_pem(tls: Tls) -> str | None:
    if tls.ca_pem is not None:
        return pem_certificates(tls.ca_pem)
    if tls.ca is None:
        return None
    with _naming(tls.ca):
        return read_trust_store(_read(tls.ca), tls.ca_password)


def _identity(tls: Tls) -> KeyStore | None:
    if tls.certificate_pem is not None and tls.key_pem is not None:
        return pem_key_store(tls.key_pem, tls.certificate_pem)
    if tls.certificate is None:
        return None
    if tls.key is None:
        with _naming(tls.certificate):
            return read_key_store(_read(tls.certificate), tls.store_password)
    with _naming(f"{tls.certificate}, {tls.key}"):
        chain, key = _read(tls.certificate), _read(tls.key)
        return pem_key_store(key.decode("latin-1"), chain.decode("latin-1"))


@contextmanager
def _naming(files: str) -> Iterator[None]:
    try:
        yield
    except InvalidStore as error:
        raise BadSecurityFiles(f"cannot use {files}: {error}") from error


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as opened:
            return opened.read(MAX_STORE_BYTES)
    except OSError as error:
        raise BadSecurityFiles(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def _as_file(content: str) -> Iterator[str]:
    """A path from which OpenSSL reads `content`; in memory where the system allows it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("headrace", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content.encode("latin-1"))
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile() as file:  # mode 0600
        file.write(content.encode("latin-1"))
        file.flush()
        yield file.name
