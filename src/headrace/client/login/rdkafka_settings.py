"""A client's settings as librdkafka reads them, from librdkafka's names or those of Java. Pure.

librdkafka refuses settings that it does not know. Those of Java's clients are therefore translated,
or left out if they have no meaning for it.
"""

from collections.abc import Mapping
from typing import Final

from headrace.client.login.security import InvalidSecurity, is_on, with_login

_PEM: Final = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_OF_JAVA: Final = (
    "sasl.jaas.config",
    "sasl.login.",
    "sasl.client.callback.handler.class",
    "sasl.tokenauth",
    "ssl.truststore.",
    "ssl.keystore.",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.engine.factory.class",
    "ssl.secure.random.implementation",
)
_OF_HTTP: Final = "http."
"""Credentials for the brokers' HTTP ports."""
PKCS12: Final = (".p12", ".pfx", ".pkcs12")


def rdkafka_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for librdkafka; raises `InvalidSecurity` for what it cannot do.

    Tokens of OAUTHBEARER are the caller's part: librdkafka asks for them with a callback.
    """
    given = with_login(settings)
    if is_on(given, "sasl.tokenauth", default=False):
        raise InvalidSecurity(
            "librdkafka, which this command uses, cannot log in with a delegation token; use a "
            "password, or a client in Java"
        )
    found = {
        name: value
        for name, value in given.items()
        if not name.startswith((*_OF_JAVA, _OF_HTTP, "sasl.oauthbearer."))
    }
    if given.get("sasl.mechanism", given.get("sasl.mechanisms", "")).upper() == "OAUTHBEARER":
        found.pop("sasl.username", None)
        found.pop("sasl.password", None)
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    for java, ours in _PEM.items():
        if given.get(java):
            found.setdefault(ours, given[java])
    _add_stores(given, found)
    return found


def _add_stores(given: Mapping[str, str], found: dict[str, str]) -> None:
    trusted = given.get("ssl.truststore.location")
    if trusted and not found.keys() & {"ssl.ca.location", "ssl.ca.pem"}:
        if _is_pkcs12(trusted, given.get("ssl.truststore.type")):
            raise InvalidSecurity(
                f"librdkafka, which this command uses, cannot read the trust store {trusted}: set "
                "ssl.ca.location to a PEM file with its certificates"
            )
        found["ssl.ca.location"] = trusted
    store = given.get("ssl.keystore.location")
    if store and not found.keys() & {"ssl.certificate.location", "ssl.certificate.pem"}:
        if _is_pkcs12(store, given.get("ssl.keystore.type")):
            found["ssl.keystore.location"] = store
            found["ssl.keystore.password"] = given.get("ssl.keystore.password", "")
        else:
            found["ssl.certificate.location"] = found["ssl.key.location"] = store


def _is_pkcs12(path: str, type_: str | None) -> bool:
    return path.lower().endswith(PKCS12) if type_ is None else type_.upper() != "PEM"
