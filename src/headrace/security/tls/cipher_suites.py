"""Names of cipher suites: Kafka uses IANA's, OpenSSL has its own."""

from collections.abc import Sequence
from typing import Final, NamedTuple

TLS_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""The suites of TLS 1.3 that OpenSSL offers. Python cannot choose among them before 3.15."""

_KEY_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CCM": "AES128-CCM",
    "AES_256_CCM": "AES256-CCM",
    "AES_128_CCM_8": "AES128-CCM8",
    "AES_256_CCM_8": "AES256-CCM8",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
}


class UnknownCipherSuite(ValueError):
    """A name that is not a cipher suite of TLS 1.2 or 1.3."""


class UnsupportedCipherSuites(ValueError):
    """A choice of suites that Python cannot make."""


class CipherSuites(NamedTuple):
    """`tls_1_2` has OpenSSL's names. A version without suites is not offered."""

    tls_1_2: tuple[str, ...]
    offers_tls_1_3: bool


def choose_cipher_suites(names: Sequence[str]) -> CipherSuites:
    """The suites of a list that is not empty; raises one of this module's errors."""
    newer = TLS_1_3.intersection(names)
    if newer and newer != TLS_1_3:
        raise UnsupportedCipherSuites(
            "Python cannot choose among the suites of TLS 1.3: name all of "
            f"{', '.join(sorted(TLS_1_3))}, or none of them for TLS 1.2 only"
        )
    older = tuple(_openssl_name(name) for name in names if name not in TLS_1_3)
    return CipherSuites(older, bool(newer))


def _openssl_name(name: str) -> str:
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if name.startswith("TLS_") and exchange in _KEY_EXCHANGES and cipher in _CIPHERS:
        return _KEY_EXCHANGES[exchange] + _CIPHERS[cipher]
    raise UnknownCipherSuite(
        f"{name} is not a suite that can be offered; names are IANA's, e.g. "
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    )
