"""The TLS and SASL settings of a client. Pure.

The names are those of librdkafka and Java (`security.protocol`, `sasl.mechanism`,
`ssl.ca.location`), so that one set of settings works for every client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

OFF: Final = frozenset({"false", "0", "no", "off", "none", ""})


class InvalidSecurity(ValueError):
    """The settings are incomplete or contradict each other; the message says what to set."""


class Mechanism(StrEnum):
    """The SASL mechanisms that this client supports."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM format; without `ca` the system's certificates are trusted."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Credentials:
    """The mechanism, user name and password for SASL."""

    mechanism: Mechanism
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings. Neither of them means Kafka's PLAINTEXT."""

    tls: Tls | None = None
    sasl: Credentials | None = None


PLAINTEXT: Final = Security()


def security_of(settings: Mapping[str, str]) -> Security:
    """The security that these settings describe; raises `InvalidSecurity`."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
        raise InvalidSecurity(
            f"security.protocol must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, "
            f"not {protocol!r}"
        )
    return Security(
        tls=_tls(settings) if protocol.endswith("SSL") else None,
        sasl=_credentials(settings) if protocol.startswith("SASL") else None,
    )


def _tls(settings: Mapping[str, str]) -> Tls:
    verify = settings.get("enable.ssl.certificate.verification", "true").lower() not in OFF
    identification = settings.get("ssl.endpoint.identification.algorithm", "https")
    return Tls(
        ca=settings.get("ssl.ca.location"),
        certificate=settings.get("ssl.certificate.location"),
        key=settings.get("ssl.key.location"),
        key_password=settings.get("ssl.key.password"),
        verify=verify,
        check_hostname=verify and identification.lower() not in OFF,
    )


def _credentials(settings: Mapping[str, str]) -> Credentials:
    named = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""
    known = {mechanism.value: mechanism for mechanism in Mechanism}
    mechanism = known.get(named.upper())
    if mechanism is None:
        found = f"not {named!r}" if named else "but it is not set"
        raise InvalidSecurity(f"sasl.mechanism must be one of {', '.join(known)}, {found}")
    missing = [name for name in ("sasl.username", "sasl.password") if not settings.get(name)]
    if missing:
        raise InvalidSecurity(f"{mechanism.value} needs {' and '.join(missing)}")
    return Credentials(mechanism, settings["sasl.username"], settings["sasl.password"])
