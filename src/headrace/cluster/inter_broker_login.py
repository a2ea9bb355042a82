"""The login of a broker at other brokers, if their common listener uses SASL. Pure."""

from dataclasses import dataclass, field
from typing import Final

from headrace.cluster.configs.config_def import InvalidConfig
from headrace.cluster.listener_settings import ListenerSettings
from headrace.security.sasl.jaas import InvalidJaas, parse_jaas

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_JAAS: Final = "sasl.jaas.config"
_MODULES: Final = {"PLAIN": "PLAIN", "SCRAM-SHA-256": "SCRAM", "SCRAM-SHA-512": "SCRAM"}
"""The login module of each mechanism that brokers can use among themselves."""


@dataclass(frozen=True, slots=True)
class InterBrokerLogin:
    """A user that every broker accepts."""

    mechanism: str
    username: str
    password: str = field(repr=False)


def inter_broker_login(settings: ListenerSettings) -> InterBrokerLogin:
    """The login that these settings describe; raises `InvalidConfig`."""
    mechanism = (settings.string(_MECHANISM) or "").upper()
    if mechanism not in _MODULES:
        raise InvalidConfig(
            _MECHANISM, mechanism, f"between brokers, use one of {', '.join(_MODULES)}"
        )
    enabled = settings.words("sasl.enabled.mechanisms")
    if mechanism not in enabled:
        raise InvalidConfig(
            _MECHANISM,
            mechanism,
            f"must be among sasl.enabled.mechanisms = {','.join(enabled)} of listener "
            f"{settings.listener}",
        )
    text = settings.own(_JAAS, mechanism=mechanism)
    name = f"listener.name.{settings.listener.lower()}.{mechanism.lower()}.{_JAAS}"
    if not text:
        raise InvalidConfig(
            name, "", "not set; the brokers of a cluster log in with its username and password"
        )
    try:
        login = parse_jaas(text)
    except InvalidJaas as error:
        raise InvalidConfig(name, "", str(error)) from error
    if login.mechanism != _MODULES[mechanism] or not login.username or not login.password:
        raise InvalidConfig(
            name, "", f"needs the login module of {mechanism} with a username and a password"
        )
    return InterBrokerLogin(mechanism, login.username, login.password)
