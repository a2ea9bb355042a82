"""Brokers for every way to authenticate, and client settings as users write them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from headrace.testing import Broker, allow
from support.security.signed_tokens import issuer_settings, signed

USER: Final = "alice"
MECHANISMS: Final = ("mTLS", "mTLS, Java", "PLAIN", "SCRAM", "SCRAM, Java", "OAUTHBEARER")
_LISTENER: Final = "listener.name.sasl_ssl"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_BEARER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
_PASSWORD: Final = "sec,ret="


class SecuredBroker(NamedTuple):
    """A broker, and the settings of a client that it accepts."""

    broker: Broker
    settings: dict[str, str]


@contextmanager
def secured_broker(mechanism: str, folder: Path) -> Iterator[SecuredBroker]:
    """A broker whose user alice may do everything with topics and groups."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"}
    settings[f"{_LISTENER}.plain.sasl.jaas.config"] = f'{_PLAIN} user_{USER}="{_PASSWORD}";'
    settings[f"{_LISTENER}.oauthbearer.sasl.jaas.config"] = _BEARER
    settings |= issuer_settings(folder)
    acls = [
        allow(USER, "all", topic="*"),
        allow(USER, "all", group="*"),
        allow(USER, "all", transactional_id="*"),
        allow(USER, "idempotent-write", cluster=True),
    ]
    is_tls = mechanism.startswith("mTLS")
    with Broker(
        security="ssl" if is_tls else "sasl_ssl",
        users={USER: _PASSWORD},
        acls=acls,
        settings={} if is_tls else settings,
    ) as broker:
        yield SecuredBroker(broker, _client_settings(broker, mechanism, folder))


def _client_settings(broker: Broker, mechanism: str, folder: Path) -> dict[str, str]:
    config = broker.client_config(USER)
    match mechanism:
        case "mTLS" | "SCRAM":
            return config
        case "mTLS, Java" | "SCRAM, Java":
            return broker.java_config(USER)
        case "PLAIN":
            return {**config, "sasl.mechanism": "PLAIN"}
    token = folder / "token"
    token.write_text(signed())
    config = {name: value for name, value in config.items() if not name.startswith("sasl.")}
    return {
        **config,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
    }
