"""How a client proves who it is and checks whom it talks to: TLS and SASL, as settings. Pure.

The names are librdkafka's and Java's (`security.protocol`, `sasl.mechanism`, `ssl.ca.location`), so
that one set of settings serves every client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

OFF: Final = frozenset({"false", "0", "no", "off", "none", ""})


class InvalidSecurity(ValueError):
    """The settings contradict each other or lack something; the message says what to set."""


class Mechanism(StrEnum):
    """The SASL mechanisms that this client speaks."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form; without `ca` the system's certificates are trusted."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Credentials:
    """What SASL sends, or proves to know."""

    mechanism: Mechanism
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """Neither TLS nor SASL is Kafka's PLAINTEXT."""

    tls: Tls | None = None
    sasl: Credentials | None = None


PLAINTEXT: Final = Security()


def security_of(settings: Mapping[str, str]) -> Security:
    """The security that these settings describe; raises `InvalidSecurity`."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
        raise InvalidSecurity(
            f"security.protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, not {protocol!r}"
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
        said = f"not {named!r}" if named else "and is not set"
        raise InvalidSecurity(f"sasl.mechanism is {', '.join(known)}, {said}")
    missing = [name for name in ("sasl.username", "sasl.password") if not settings.get(name)]
    if missing:
        raise InvalidSecurity(f"{mechanism.value} needs {' and '.join(missing)}")
    return Credentials(mechanism, settings["sasl.username"], settings["sasl.password"])
