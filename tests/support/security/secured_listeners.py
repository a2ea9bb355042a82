"""One broker with a listener for certificates and one for logins, both with TLS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.local_security import scram_login
from headrace.testing import Broker, allow
from support.security.signed_tokens import claims, issuer_settings, signed

Settings = dict[str, str]

TRUSTED: Final = "alice"
"""The user with all rights on topics, groups and transactional ids whose names begin so:"""
PREFIX: Final = "t-"
UNTRUSTED: Final = "bob"
"""A user without rights."""
LOGINS: Final = ("mTLS", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PASSWORD: Final = "sec,ret="
MODULES: Final = "org.apache.kafka.common.security"
TIMEOUT_S: Final = 30.0


class SecuredListeners:
    """How clients connect to the broker."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        assert broker.node is not None
        self._logins, self._certificates = (
            f"127.0.0.1:{each.port}" for each in broker.node.endpoints
        )
        self._broker = broker
        self._folder = folder

    def settings(self, login: str, user: str = TRUSTED, password: str = PASSWORD) -> Settings:
        """The settings of librdkafka; `token.file` has the token of OAUTHBEARER."""
        trusting = {"ssl.ca.location": str(self._broker.ca_path)}
        if login == "mTLS":
            assert self._broker.security is not None
            files = self._broker.security.files
            files.issue_client(user)
            return {
                "bootstrap.servers": self._certificates,
                "security.protocol": "SSL",
                **trusting,
                "ssl.certificate.location": str(files.certificate(user)),
                "ssl.key.location": str(files.key(user)),
                "ssl.keystore.location": str(files.keystore(user)),
            }
        shared = {
            "bootstrap.servers": self._logins,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": login,
            **trusting,
        }
        if login == "OAUTHBEARER":
            token = self._folder / f"{user}.token"
            token.write_text(signed(claims(user)))
            return {**shared, "token.file": str(token)}
        return {**shared, "sasl.username": user, "sasl.password": password}

    def java(self, login: str, user: str = TRUSTED, password: str = PASSWORD) -> Settings:
        """The settings of Kafka's clients in Java."""
        found = self.settings(login, user, password)
        settings = {
            "bootstrap.servers": found["bootstrap.servers"],
            "security.protocol": found["security.protocol"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": found["ssl.ca.location"],
        }
        if login == "mTLS":
            return {
                **settings,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": found["ssl.keystore.location"],
            }
        settings["sasl.mechanism"] = login
        if login != "OAUTHBEARER":
            return {**settings, "sasl.jaas.config": scram_login(user, password)}
        bearer = f"{MODULES}.oauthbearer"
        return {
            **settings,
            "sasl.jaas.config": f"{bearer}.OAuthBearerLoginModule required;",
            "sasl.oauthbearer.token.endpoint.url": Path(found["token.file"]).as_uri(),
            "sasl.oauthbearer.jwt.retriever.class": f"{bearer}.DefaultJwtRetriever",
            "sasl.login.callback.handler.class": f"{bearer}.OAuthBearerLoginCallbackHandler",
        }

    def java_options(self, user: str = TRUSTED) -> list[str]:
        """The options of a JVM that may read the token of a user."""
        token = (self._folder / f"{user}.token").as_uri()
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token}"]


@contextmanager
def secured_listeners(folder: Path) -> Iterator[SecuredListeners]:
    """Certificates are mapped to the names of users, so that ACLs apply to every login."""
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
            f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        "group.initial.rebalance.delay.ms": "0",
        **issuer_settings(folder),
    }
    acls = [
        allow(TRUSTED, "all", topic=PREFIX, prefixed=True),
        allow(TRUSTED, "all", group=PREFIX, prefixed=True),
        allow(TRUSTED, "all", transactional_id=PREFIX, prefixed=True),
    ]
    users = {TRUSTED: PASSWORD, UNTRUSTED: PASSWORD}
    with Broker(security="sasl_ssl", users=users, acls=acls, settings=settings) as broker:
        _add_sha_256(broker)
        yield SecuredListeners(broker, folder)


def _add_sha_256(broker: Broker) -> None:
    """The users have passwords for SCRAM-SHA-512; this adds those for the other mechanism."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    changes = [
        UserScramCredentialUpsertion(user, info, PASSWORD.encode()) for user in (TRUSTED, UNTRUSTED)
    ]
    admin = AdminClient(broker.client_config())
    for done in admin.alter_user_scram_credentials(changes).values():
        done.result(TIMEOUT_S)
