"""The security of brokers that are started for development and tests, in one call.

`broker_settings` are the settings of a listener with TLS, SASL or both. `seeded` gives a store its
first users and ACLs before the broker listens, so that no request is served without them.
`ClientConfig` are a client's settings, as librdkafka and as Java read them.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from headrace.certificate_files import SERVER, CertificateFiles
from headrace.client.admin.users import NewCredential
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import AclCreated, MetadataRecord, ScramCredentialChanged
from headrace.cluster.metadata_store import MetadataStore
from headrace.security.authorization.acl import Acl
from headrace.security.sasl.scram_credential import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)

SecurityProtocol: TypeAlias = Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"]
MECHANISM: Final = ScramMechanism.SCRAM_SHA_512
ENABLED_MECHANISMS: Final = "SCRAM-SHA-256,SCRAM-SHA-512"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ADMIN: Final = "admin"
SALT_BYTES: Final = 32
PASSWORD_BYTES: Final = 18
_SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def broker_settings(
    protocol: SecurityProtocol, files: CertificateFiles, super_users: Iterable[str]
) -> dict[str, str]:
    """The settings of a broker whose only listener uses this protocol, with access control."""
    settings = {
        "inter.broker.listener.name": protocol,
        "authorizer.class.name": AUTHORIZER,
        "super.users": ";".join(super_users),
    }
    if protocol != "SSL":
        settings["sasl.enabled.mechanisms"] = ENABLED_MECHANISMS
        settings["sasl.mechanism.inter.broker.protocol"] = MECHANISM.mechanism_name
    if protocol != "SASL_PLAINTEXT":
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files.keystore(SERVER)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.ca),
        }
    if protocol == "SSL":
        settings["ssl.client.auth"] = "required"
    return settings


def broker_login(protocol: SecurityProtocol, user: str, password: str) -> dict[str, str]:
    """The setting with which a broker logs in to other brokers."""
    prefix = f"listener.name.{protocol.lower()}.{MECHANISM.mechanism_name.lower()}"
    return {f"{prefix}.sasl.jaas.config": scram_login(user, password)}


def scram_login(user: str, password: str) -> str:
    """A `sasl.jaas.config`."""
    return f"{_SCRAM_LOGIN} username={_quoted(user)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def new_password() -> str:
    return secrets.token_urlsafe(PASSWORD_BYTES)


def new_credential(user: str, password: str) -> ScramCredential:
    """A credential with a new salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    new = NewCredential(user, MECHANISM, password, salt, MIN_ITERATIONS)
    return credential_of(MECHANISM, salt, new.salted_password, MIN_ITERATIONS)


@dataclass(frozen=True, slots=True)
class FirstUsers:
    """The users and ACLs that a new cluster starts with."""

    passwords: Mapping[str, str] = field(repr=False)
    acls: Sequence[Acl] = ()
    replaces: bool = False
    """Whether a user gets this password even if it has one."""

    def without(self, users: Collection[str]) -> "FirstUsers":
        left = {user: self.passwords[user] for user in self.passwords if user not in users}
        return replace(self, passwords=left)

    def records(self, image: MetadataImage) -> list[MetadataRecord]:
        """The records that this image lacks."""
        found: list[MetadataRecord] = [
            ScramCredentialChanged(user, MECHANISM, new_credential(user, password))
            for user, password in self.passwords.items()
            if self.replaces or (user, MECHANISM) not in image.scram_credentials
        ]
        found += [AclCreated(acl) for acl in self.acls if acl not in image.acls]
        return found


def seeded(
    open_store: Callable[[str], MetadataStore], first: FirstUsers
) -> Callable[[str], MetadataStore]:
    """Opens a store that has the first users."""

    def opened(place: str) -> MetadataStore:
        store = open_store(place)
        try:
            add_first_users(store, first)
        except BaseException:
            store.close()
            raise
        return store

    return opened


def add_first_users(store: MetadataStore, first: FirstUsers) -> None:
    image = store.load()
    records = first.records(image)
    if records:
        store.commit(records, expected_version=image.version)


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How a client connects: with a user and its password, or with a certificate."""

    servers: str
    protocol: SecurityProtocol
    ca: Path | None = None
    """None without TLS."""
    user: str = ""
    password: str = field(default="", repr=False)
    certificate: Path | None = None
    key: Path | None = field(default=None, repr=False)
    keystore: Path | None = field(default=None, repr=False)

    def librdkafka(self) -> dict[str, str]:
        """For librdkafka, its bindings, kcat and Headrace."""
        settings = {"bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self.ca is not None:
            settings["ssl.ca.location"] = str(self.ca)
        if self.user:
            settings["sasl.mechanism"] = MECHANISM.mechanism_name
            settings["sasl.username"] = self.user
            settings["sasl.password"] = self.password
        if self.certificate is not None:
            settings["ssl.certificate.location"] = str(self.certificate)
            settings["ssl.key.location"] = str(self.key)
        return settings

    def java(self) -> dict[str, str]:
        """For Kafka's own clients and tools."""
        settings = {"bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self.ca is not None:
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.location"] = str(self.ca)
        if self.user:
            settings["sasl.mechanism"] = MECHANISM.mechanism_name
            settings["sasl.jaas.config"] = scram_login(self.user, self.password)
        if self.keystore is not None:
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.location"] = str(self.keystore)
        return settings


def properties_text(settings: Mapping[str, str]) -> str:
    """A properties file; Java's escapes are decoded, librdkafka's readers take it as it is."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())
