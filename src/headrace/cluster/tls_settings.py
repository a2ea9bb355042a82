"""Reads the TLS settings of a listener, and refuses those that contradict each other. Pure."""

from typing import Final

from headrace.cluster.configs.config_def import InvalidConfig
from headrace.cluster.listener_settings import ListenerSettings
from headrace.cluster.listeners import Listener
from headrace.security.tls.cipher_suites import (
    CipherSuites,
    UnknownCipherSuite,
    UnsupportedCipherSuites,
    choose_cipher_suites,
)
from headrace.security.tls.principal_mapping import InvalidRule, PrincipalMapping
from headrace.security.tls.tls_settings import ClientAuth, StoreSettings, TlsSettings, TlsVersion

_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")


def read_tls_settings(listener: Listener, settings: ListenerSettings) -> TlsSettings:
    """The TLS settings of a listener; raises `InvalidConfig`."""
    versions = _versions(settings)
    suites = _cipher_suites(settings)
    if suites is not None:
        versions = tuple(
            each
            for each in versions
            if (suites.offers_tls_1_3 if each is TlsVersion.TLS_1_3 else suites.tls_1_2)
        )
        if not versions:
            raise _invalid(
                settings, "ssl.cipher.suites", "no suite belongs to an enabled TLS version"
            )
    rules = settings.string("ssl.principal.mapping.rules") or ""
    try:
        PrincipalMapping(rules)
    except InvalidRule as error:
        raise _invalid(settings, "ssl.principal.mapping.rules", str(error)) from error
    return TlsSettings(
        listener.name,
        keystore=_keystore(settings),
        truststore=_truststore(settings),
        versions=versions,
        cipher_suites=suites,
        client_auth=_client_auth(listener, settings),
        principal_rules=rules,
        verifies_host=bool(settings.string("ssl.endpoint.identification.algorithm")),
        allows_subject_change=settings.boolean("ssl.allow.dn.changes"),
        allows_host_change=settings.boolean("ssl.allow.san.changes"),
    )


def check_tls_stores(settings: TlsSettings) -> None:
    """Refuses a listener without a key, or one that trusts no certificate but needs one of each
    client. Java would trust the public authorities, and so any certificate that these issued."""
    prefix = f"listener {settings.listener}"
    if not settings.keystore.is_set:
        raise InvalidConfig(
            "ssl.keystore.location",
            None,
            "not set",
            f"{prefix} needs a key and a certificate: set ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    if settings.client_auth is not ClientAuth.NONE and not settings.truststore.is_set:
        raise InvalidConfig(
            "ssl.client.auth",
            settings.client_auth.value,
            "needs a trust store",
            f"{prefix}: ssl.client.auth = {settings.client_auth.value} needs the certificates to "
            "trust: set ssl.truststore.location or ssl.truststore.certificates",
        )


def _versions(settings: ListenerSettings) -> tuple[TlsVersion, ...]:
    name = "ssl.enabled.protocols"
    known = {version.value: version for version in TlsVersion}
    words = settings.words(name)
    refused = [word for word in words if word not in known]
    if refused:
        raise _invalid(
            settings, name, f"{refused[0]} is not supported; choose from {', '.join(known)}"
        )
    if not words:
        raise _invalid(settings, name, f"choose at least one of {', '.join(known)}")
    return tuple(version for version in TlsVersion if version.value in words)


def _cipher_suites(settings: ListenerSettings) -> CipherSuites | None:
    name = "ssl.cipher.suites"
    words = settings.words(name)
    if not words:
        return None
    try:
        return choose_cipher_suites(words)
    except (UnknownCipherSuite, UnsupportedCipherSuites) as error:
        raise _invalid(settings, name, str(error)) from error


def _client_auth(listener: Listener, settings: ListenerSettings) -> ClientAuth:
    """With SASL, only the listener's own value counts: clients already authenticate there."""
    name = "ssl.client.auth"
    text = settings.own(name) if listener.uses_sasl else settings.raw(name)
    return ClientAuth(text.strip()) if text else ClientAuth.NONE


def _keystore(settings: ListenerSettings) -> StoreSettings:
    _check_type(settings, "ssl.keystore.type")
    location = settings.string("ssl.keystore.location")
    key, chain = (
        settings.string("ssl.keystore.key"),
        settings.string("ssl.keystore.certificate.chain"),
    )
    if location and (key or chain):
        raise _invalid(
            settings,
            "ssl.keystore.location",
            "set either this, or ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    if bool(key) != bool(chain):
        raise InvalidConfig(
            "ssl.keystore.certificate.chain" if key else "ssl.keystore.key",
            None,
            "ssl.keystore.key and ssl.keystore.certificate.chain must be set together",
        )
    return StoreSettings(
        location or None,
        settings.string("ssl.keystore.password"),
        key or None,
        chain or None,
        settings.string("ssl.key.password"),
    )


def _truststore(settings: ListenerSettings) -> StoreSettings:
    _check_type(settings, "ssl.truststore.type")
    location = settings.string("ssl.truststore.location")
    certificates = settings.string("ssl.truststore.certificates")
    if location and certificates:
        raise _invalid(
            settings,
            "ssl.truststore.location",
            "set either this or ssl.truststore.certificates",
        )
    return StoreSettings(
        location or None,
        settings.string("ssl.truststore.password"),
        certificates=certificates or None,
    )


def _check_type(settings: ListenerSettings, name: str) -> None:
    kind = settings.string(name) or ""
    if kind.upper() not in _STORE_TYPES:
        raise _invalid(settings, name, f"must be one of {', '.join(_STORE_TYPES)}")


def _invalid(settings: ListenerSettings, name: str, reason: str) -> InvalidConfig:
    return InvalidConfig(name, settings.raw(name), reason)
