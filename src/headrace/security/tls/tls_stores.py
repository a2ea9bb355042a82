"""The contents of key stores and trust stores, as PEM, whichever format they have.

The contents of a store decide its format, not its name or type: Java writes PKCS #12 into files
that are called JKS. A real JKS store is refused with the command that converts it.
"""

import re
import warnings
from enum import Enum
from typing import Final, NamedTuple

_JKS_MAGICS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS and JCEKS
_ASN1_SEQUENCE: Final = b"0"
_PEM_BEGIN: Final = b"-----BEGIN "
_PEM_BLOCK: Final = r"-----BEGIN ([A-Z0-9 ]+)-----([\s\S]*?)-----END \1-----"
_PEM_LINE_CHARS: Final = 64
_CERTIFICATE: Final = "CERTIFICATE"
MAX_STORE_BYTES: Final = 16 * 1024 * 1024


class InvalidStore(ValueError):
    """A store that cannot be read; the message has the reason, and never its contents."""


class StoreFormat(Enum):
    """The formats of stores."""

    PEM = "PEM"
    PKCS12 = "PKCS12"


class KeyStore(NamedTuple):
    """A private key, perhaps encrypted, and its certificate with the issuers after it."""

    key: str
    chain: str

    def __repr__(self) -> str:
        return "KeyStore(...)"


def store_format(contents: bytes) -> StoreFormat:
    """The format of a store; raises `InvalidStore`."""
    if _PEM_BEGIN in contents:
        return StoreFormat.PEM
    if contents.startswith(_ASN1_SEQUENCE):
        return StoreFormat.PKCS12
    if contents.startswith(_JKS_MAGICS):
        raise InvalidStore(
            "it is a JKS store, which only Java reads; convert it: keytool -importkeystore "
            "-srckeystore a.jks -destkeystore a.p12 -deststoretype PKCS12"
        )
    raise InvalidStore("it is neither PEM nor PKCS #12")


def read_key_store(contents: bytes, password: str | None) -> KeyStore:
    """The key and the certificates of a key store; raises `InvalidStore`."""
    if store_format(contents) is StoreFormat.PEM:
        text = _text(contents)
        return pem_key_store(text, text)
    key, chain = _read_pkcs12(contents, password)
    if not key or not chain:
        raise InvalidStore("it has no private key with a certificate")
    return KeyStore(key, chain)


def read_trust_store(contents: bytes, password: str | None) -> str:
    """The certificates of a trust store as PEM; raises `InvalidStore`."""
    if store_format(contents) is StoreFormat.PEM:
        return pem_certificates(_text(contents))
    _, certificates = _read_pkcs12(contents, password)
    if not certificates:
        raise InvalidStore("it has no certificates")
    return certificates


def pem_key_store(key_text: str, chain_text: str) -> KeyStore:
    """The key of one PEM text and the certificates of another, or of the same."""
    keys = [_pem(*block) for block in _blocks(key_text) if block[0].endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise InvalidStore(f"expected one private key, found {len(keys)}")
    return KeyStore(keys[0], pem_certificates(chain_text))


def pem_certificates(text: str) -> str:
    """The certificates of a PEM text, without anything else in it."""
    found = [_pem(*block) for block in _blocks(text) if block[0] == _CERTIFICATE]
    if not found:
        raise InvalidStore("it has no certificates")
    return "".join(found)


def _text(contents: bytes) -> str:
    return contents.decode("ascii", "ignore")  # comments may have other characters


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in re.finditer(_PEM_BLOCK, text)]


def _pem(label: str, body: str) -> str:
    """A block with lines of the usual length: in settings it is often written in one line."""
    if ":" not in body:  # headers of an encrypted key in the older format need their own lines
        packed = "".join(body.split())
        starts = range(0, len(packed), _PEM_LINE_CHARS)
        body = "\n" + "".join(f"{packed[at : at + _PEM_LINE_CHARS]}\n" for at in starts)
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"


def _read_pkcs12(contents: bytes, password: str | None) -> tuple[str, str]:
    """The key and the certificates of a PKCS #12 store; empty texts for those it lacks."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise InvalidStore(
            "PKCS #12 needs the cryptography package: pip install 'headrace[security]'"
        ) from error
    secret = password.encode() if password is not None else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some tools write BER, which is accepted, too
            store = pkcs12.load_pkcs12(contents, secret)
    except (ValueError, TypeError) as error:
        raise InvalidStore("its password is wrong, or it is damaged") from error
    except UnsupportedAlgorithm as error:
        raise InvalidStore("its encryption is not supported") from error
    key = ""
    if store.key is not None:
        key = store.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode("ascii")
    certificates = [store.cert] if store.cert is not None else []
    certificates += store.additional_certs
    pem = serialization.Encoding.PEM
    chain = "".join(each.certificate.public_bytes(pem).decode("ascii") for each in certificates)
    return key, chain
