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
from typing import Final, NamedTuple

from headrace.client.errors import BadSecurityFiles
from headrace.client.security import Tls

MAX_FILE_BYTES: Final = 4 << 20
JKS: Final = b"\xfe\xed\xfe\xed"
DER: Final = b"\x30"
"""The first byte of a PKCS12 file."""


class _Identity(NamedTuple):
    """A certificate chain and its key in PEM."""

    chain: str
    key: str


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The context for `loop.create_connection`; raises `BadSecurityFiles` for unusable files."""
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
        reason = "the key's password is wrong or missing" if _is_password(error) else error
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


def _is_password(error: Exception) -> bool:
    text = str(error).upper()
    return "DECRYPT" in text or "PASSWORD" in text


def _trusted_pem(tls: Tls) -> str | None:
    if tls.ca_pem is not None or tls.ca is None:
        return tls.ca_pem
    content = _read(tls.ca)
    if content.startswith(DER):
        return _of_pkcs12(tls.ca, content, tls.ca_password).chain
    return content.decode("latin-1")


def _identity(tls: Tls) -> _Identity | None:
    if tls.certificate_pem is not None and tls.key_pem is not None:
        return _Identity(tls.certificate_pem, tls.key_pem)
    if tls.certificate is None:
        return None
    content = _read(tls.certificate)
    if content.startswith(DER):
        return _of_pkcs12(tls.certificate, content, tls.store_password)
    chain = content.decode("latin-1")
    return _Identity(chain, _read(tls.key).decode("latin-1") if tls.key else chain)


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES)
    except OSError as error:
        raise BadSecurityFiles(f"cannot read {path}: {error.strerror}") from error
    if content.startswith(JKS):
        raise BadSecurityFiles(
            f"{path} is a Java key store (JKS), which only Java can read; convert it: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {Path(path).stem}.p12 "
            "-deststoretype PKCS12"
        )
    return content


def _of_pkcs12(path: str, content: bytes, password: str | None) -> _Identity:
    """The certificates (those of a trust store too) and the key, if the file has one."""
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError as error:
        raise BadSecurityFiles(
            f"{path} is a PKCS12 file, which needs cryptography: pip install 'headrace[security]'; "
            "or use PEM files"
        ) from error
    try:
        store = load_pkcs12(content, (password or "").encode())
    except ValueError as error:
        raise BadSecurityFiles(
            f"cannot open {path}: the password is wrong, or it is not a PKCS12 file"
        ) from error
    found = [each for each in (store.cert, *store.additional_certs) if each is not None]
    chain = b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found)
    key = (
        store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        if (store.key)
        else b""
    )
    return _Identity(chain.decode(), key.decode())


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
