"""The TLS and SASL settings of a client. Pure.

The names are those of librdkafka and of Java's clients, so that one set of settings works for every
client: `ssl.ca.location` as well as `ssl.truststore.location`, `sasl.username` as well as
`sasl.jaas.config`. Where both are given, librdkafka's name wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.client.login.jaas import credentials_of

OFF: Final = frozenset({"false", "0", "no", "off", "none", ""})
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SECRETS: Final = frozenset(
    {
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.config",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
"""The settings whose values are never shown."""


class InvalidSecurity(ValueError):
    """The settings are incomplete or contradict each other; the message says what to set."""


class Mechanism(StrEnum):
    """The SASL mechanisms that this client supports."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates and keys as files (PEM or PKCS12) or as PEM text; the text wins.

    Without `ca` the system's certificates are trusted.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    """None if the key is in the file of the certificate."""
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True
    ca_password: str | None = field(default=None, repr=False)
    store_password: str | None = field(default=None, repr=False)
    """Of a PKCS12 file that has the certificate and the key."""
    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where OAUTHBEARER tokens come from: a file, or an OAuth 2.0 server (client credentials)."""

    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    ca: str | None = None
    """PEM file with the certificates that the server's certificate is checked against."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The mechanism, user name and password for SASL."""

    mechanism: Mechanism
    username: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    """Whether name and password are the id and the HMAC of a delegation token."""
    token_source: TokenSource | None = None
    """For OAUTHBEARER, which has neither name nor password."""
    bearer_token: str = field(default="", repr=False)
    """A token of OAUTHBEARER that the caller already has, instead of a source."""
    extensions: tuple[tuple[str, str], ...] = ()
    """For OAUTHBEARER."""


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings. Neither of them means Kafka's PLAINTEXT."""

    tls: Tls | None = None
    sasl: Credentials | None = None


PLAINTEXT: Final = Security()


def security_of(settings: Mapping[str, str]) -> Security:
    """The security that these settings describe; raises `InvalidSecurity`."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise InvalidSecurity(
            f"security.protocol must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, "
            f"not {protocol!r}"
        )
    return Security(
        tls=_tls(settings) if protocol.endswith("SSL") else None,
        sasl=_credentials(settings) if protocol.startswith("SASL") else None,
    )


def with_login(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with those of `sasl.jaas.config` under librdkafka's names, which win."""
    return {**credentials_of(settings.get("sasl.jaas.config", "")), **settings}


def is_on(settings: Mapping[str, str], name: str, *, default: bool) -> bool:
    return settings.get(name, "true" if default else "false").strip().lower() not in OFF


def _tls(settings: Mapping[str, str]) -> Tls:
    verify = is_on(settings, "enable.ssl.certificate.verification", default=True)
    identification = settings.get("ssl.endpoint.identification.algorithm", "https")
    tls = Tls(
        ca=_first(settings, "ssl.ca.location", "ssl.truststore.location"),
        certificate=_first(settings, "ssl.certificate.location", "ssl.keystore.location"),
        key=settings.get("ssl.key.location"),
        key_password=settings.get("ssl.key.password"),
        verify=verify,
        check_hostname=verify and identification.lower() not in OFF,
        ca_password=settings.get("ssl.truststore.password"),
        store_password=settings.get("ssl.keystore.password"),
        ca_pem=_first(settings, "ssl.ca.pem", "ssl.truststore.certificates"),
        certificate_pem=_first(settings, "ssl.certificate.pem", "ssl.keystore.certificate.chain"),
        key_pem=_first(settings, "ssl.key.pem", "ssl.keystore.key"),
    )
    if (tls.certificate_pem is None) != (tls.key_pem is None):
        raise InvalidSecurity("ssl.certificate.pem and ssl.key.pem belong together; set both")
    if tls.key is not None and tls.certificate is None:
        raise InvalidSecurity("ssl.key.location needs ssl.certificate.location")
    return tls


def _first(settings: Mapping[str, str], *names: str) -> str | None:
    return next((settings[name] for name in names if settings.get(name)), None)


def _credentials(settings: Mapping[str, str]) -> Credentials:
    settings = with_login(settings)
    named = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""
    known = {mechanism.value: mechanism for mechanism in Mechanism}
    mechanism = known.get(named.upper())
    if mechanism is None:
        found = f"not {named!r}" if named else "but it is not set"
        raise InvalidSecurity(f"sasl.mechanism must be one of {', '.join(known)}, {found}")
    if mechanism is Mechanism.OAUTHBEARER:
        return Credentials(
            mechanism,
            token_source=_token_source(settings),
            extensions=_extensions(settings.get("sasl.oauthbearer.extensions", "")),
        )
    missing = [name for name in ("sasl.username", "sasl.password") if not settings.get(name)]
    if missing:
        raise InvalidSecurity(f"{mechanism.value} needs {' and '.join(missing)}")
    is_token = is_on(settings, "sasl.tokenauth", default=False)
    if is_token and mechanism is Mechanism.PLAIN:
        raise InvalidSecurity("a delegation token needs SCRAM-SHA-256 or SCRAM-SHA-512, not PLAIN")
    return Credentials(mechanism, settings["sasl.username"], settings["sasl.password"], is_token)


def _token_source(settings: Mapping[str, str]) -> TokenSource:
    url = settings.get("sasl.oauthbearer.token.endpoint.url", "")
    if not _is_token_url(url):
        raise InvalidSecurity(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url: the https:// address of an "
            "OAuth 2.0 token endpoint, or file:// and the path of a file with the token"
        )
    client = _first(
        settings, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"
    )
    secret = _first(
        settings,
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
    )
    if not url.startswith("file://") and not (client and secret):
        raise InvalidSecurity(
            "OAUTHBEARER needs sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret for "
            "its token endpoint"
        )
    return TokenSource(
        url,
        client or "",
        secret or "",
        settings.get("sasl.oauthbearer.scope", ""),
        settings.get("https.ca.location"),
    )


def _is_token_url(url: str) -> bool:
    """A client's secret and its token never cross a network without TLS."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    match parts.scheme:
        case "https":
            return bool(parts.hostname)
        case "http":
            return parts.hostname in LOOPBACK
        case "file":
            return parts.path.startswith("/") and not parts.netloc
    return False


def _extensions(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, equals, value in pairs:
        if not (
            equals and name.isascii() and name.isalpha() and value.isprintable() and name != "auth"
        ):
            raise InvalidSecurity(
                f"sasl.oauthbearer.extensions has {name!r}; expected name=value,name=value, with "
                "names of letters"
            )
    return tuple((name, value) for name, _, value in pairs)
