"""The SASL settings of one listener: mechanisms, users of PLAIN, session times, OAUTHBEARER. Pure.

`listener.name.<listener>.<setting>` overrides a setting for one listener, and for some settings
`listener.name.<listener>.<mechanism>.<setting>` overrides it for one mechanism. Both are written in
lower case.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from headrace.cluster.configs.catalog import BROKER
from headrace.cluster.configs.config_def import ConfigValue
from headrace.cluster.listeners import Listener
from headrace.security.sasl.jaas import InvalidJaas, JaasLogin, parse_jaas
from headrace.security.sasl.mechanisms import GSSAPI, OAUTHBEARER, PLAIN, SUPPORTED

_JAAS: Final = "sasl.jaas.config"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class BadSasl(Exception):
    """An invalid setting: its name, its value unless that is a secret, and the reason."""

    def __init__(self, name: str, value: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name
        self.value = value
        self.reason = reason


@dataclass(frozen=True, slots=True)
class OAuthBearerSettings:
    """What a token must say, and where the keys are that sign tokens."""

    keys_url: str
    issuer: str
    audiences: tuple[str, ...]
    scope_claim: str
    subject_claim: str
    clock_skew_s: int
    refresh_s: float
    retry_s: float
    retry_max_s: float


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The SASL settings of one listener."""

    mechanisms: tuple[str, ...]
    max_receive_bytes: int
    failure_delay_s: float
    authentication_timeout_s: float
    max_reauth_ms: Mapping[str, int]
    """The longest session of each mechanism; 0 for no limit."""
    plain_passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauthbearer: OAuthBearerSettings | None = None
    warnings: tuple[str, ...] = ()


class ListenerValues:
    """The values of settings for one listener, and for one of its mechanisms."""

    def __init__(self, static: Mapping[str, str], listener: str) -> None:
        self._static = static
        self._prefix = f"listener.name.{listener.lower()}."

    def set_name(self, name: str, mechanism: str | None = None) -> str:
        """The name under which the setting has its value; without one, the setting's own name."""
        names = [self._prefix + name]
        if mechanism is not None:
            names.insert(0, self.prefixed(name, mechanism))
        return next((each for each in names if each in self._static), name)

    def prefixed(self, name: str, mechanism: str) -> str:
        return f"{self._prefix}{mechanism.lower()}.{name}"

    def text(self, name: str) -> str | None:
        """The value under exactly this name."""
        return self._static.get(name)

    def value(self, name: str, mechanism: str | None = None) -> ConfigValue | None:
        definition = BROKER[name]
        text = self._static.get(self.set_name(name, mechanism), definition.default)
        return None if text is None else definition.parse(text)

    def integer(self, name: str, mechanism: str | None = None) -> int:
        value = self.value(name, mechanism)
        assert isinstance(value, int)
        return value

    def string(self, name: str) -> str:
        return str(self.value(name) or "")

    def words(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        assert value is None or isinstance(value, tuple)
        return value or ()


def read_sasl_settings(static: Mapping[str, str], listener: Listener) -> SaslSettings:
    """The settings of a listener whose protocol is SASL_PLAINTEXT or SASL_SSL; raises
    `BadSasl`."""
    values = ListenerValues(static, listener.name)
    mechanisms, warnings = _mechanisms(values, listener)
    passwords: dict[str, str] = {}
    if PLAIN in mechanisms:
        passwords = _plain_passwords(values)
    for mechanism in mechanisms:
        if mechanism != PLAIN:
            _read_jaas(values, mechanism)  # checked as Kafka does; it has nothing for the server
    return SaslSettings(
        mechanisms=mechanisms,
        max_receive_bytes=values.integer("sasl.server.max.receive.size"),
        failure_delay_s=values.integer("connection.failed.authentication.delay.ms") / 1000,
        authentication_timeout_s=values.integer("headrace.authentication.timeout.ms") / 1000,
        max_reauth_ms={
            each: max(0, values.integer("connections.max.reauth.ms", each)) for each in mechanisms
        },
        plain_passwords=passwords,
        oauthbearer=_oauthbearer(values) if OAUTHBEARER in mechanisms else None,
        warnings=warnings,
    )


def _mechanisms(
    values: ListenerValues, listener: Listener
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The mechanisms to offer, and a warning for one that is left out."""
    name = values.set_name(_MECHANISMS)
    enabled = values.words(_MECHANISMS)
    shown = ",".join(enabled)
    unknown = [each for each in enabled if each not in SUPPORTED and each != GSSAPI]
    if unknown:
        raise BadSasl(
            name, shown, f"no such mechanism: {', '.join(unknown)}; use {', '.join(SUPPORTED)}"
        )
    offered = tuple(each for each in enabled if each != GSSAPI)
    if not offered:
        raise BadSasl(
            name,
            shown,
            f"listener {listener.name} has no other mechanism, and GSSAPI (Kerberos) is not "
            f"supported; set {_MECHANISMS} to one or more of {', '.join(SUPPORTED)}",
        )
    if offered == enabled:
        return offered, ()
    return offered, (f"ignoring GSSAPI in {name}: Kerberos is not supported",)


def _read_jaas(values: ListenerValues, mechanism: str) -> JaasLogin | None:
    name = values.prefixed(_JAAS, mechanism)
    text = values.text(name)
    if text is None:
        return None
    try:
        login = parse_jaas(text)
    except InvalidJaas as error:
        raise BadSasl(name, text, str(error)) from None
    if not mechanism.startswith(login.mechanism):
        raise BadSasl(name, text, f"the login module is that of {login.mechanism}")
    return login


def _plain_passwords(values: ListenerValues) -> dict[str, str]:
    name = values.prefixed(_JAAS, PLAIN)
    login = _read_jaas(values, PLAIN)
    passwords = {} if login is None else login.users()
    if not passwords:
        raise BadSasl(
            name,
            "",
            "PLAIN needs the users of this listener: "
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_<name>="...";',
        )
    empty = [user for user, password in passwords.items() if not password]
    if empty:
        raise BadSasl(name, "", f"the password of {', '.join(empty)} is empty")
    return passwords


def _oauthbearer(values: ListenerValues) -> OAuthBearerSettings:
    """A broker that accepts tokens from anywhere would accept every token (CVE-2026-33557)."""
    prefix = "sasl.oauthbearer."
    url = values.string(prefix + "jwks.endpoint.url")
    issuer = values.string(prefix + "expected.issuer")
    audiences = values.words(prefix + "expected.audience")
    for name, value in (
        ("jwks.endpoint.url", url),
        ("expected.issuer", issuer),
        ("expected.audience", audiences),
    ):
        if not value:
            raise BadSasl(prefix + name, "", "OAUTHBEARER needs it: without it any token would do")
    _check_keys_url(values, prefix + "jwks.endpoint.url", url)
    return OAuthBearerSettings(
        keys_url=url,
        issuer=issuer,
        audiences=audiences,
        scope_claim=values.string(prefix + "scope.claim.name"),
        subject_claim=values.string(prefix + "sub.claim.name"),
        clock_skew_s=values.integer(prefix + "clock.skew.seconds"),
        refresh_s=values.integer(prefix + "jwks.endpoint.refresh.ms") / 1000,
        retry_s=values.integer(prefix + "jwks.endpoint.retry.backoff.ms") / 1000,
        retry_max_s=values.integer(prefix + "jwks.endpoint.retry.backoff.max.ms") / 1000,
    )


def _check_keys_url(values: ListenerValues, name: str, url: str) -> None:
    """Only https, and URLs that are listed: a URL must not make the broker read its own files or
    services (CVE-2025-27817)."""
    allowed = "headrace.oauthbearer.allowed.urls"
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise BadSasl(name, url, f"not a URL: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise BadSasl(name, "(hidden)", "a URL with a password is not accepted")
    is_listed = url in values.words(allowed)
    if parts.scheme == "https" and host:
        return
    if parts.scheme == "file" and parts.path and not host:
        if not is_listed:
            raise BadSasl(name, url, f"a file must be listed in {allowed}")
        return
    if parts.scheme == "http" and host in _LOOPBACK and is_listed:
        return
    raise BadSasl(name, url, f"must be an https URL, or a file URL that {allowed} lists")
