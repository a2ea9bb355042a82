"""`headrace cluster up --secure`: certificates, users and client configurations of a local cluster.

They are in the directory `security` of the cluster and are used again at the next start. All
brokers share one certificate and one user, `broker`. The users are in ZooKeeper before the first
broker starts, in znodes that only the brokers can read.
"""

import asyncio
from pathlib import Path
from typing import Final

from headrace.certificate_files import (
    SECRET_MODE,
    CertificateFiles,
    CertificatesUnavailable,
    write_file,
)
from headrace.cli.exit_codes import CommandFailed
from headrace.client.login.security import Security, security_of
from headrace.clock import SystemClock
from headrace.cluster.java_properties import BadProperties, read_properties
from headrace.cluster.metadata_store import StoreError
from headrace.cluster.settings import BrokerSettings
from headrace.local_security import (
    ADMIN,
    ClientConfig,
    FirstUsers,
    broker_login,
    broker_settings,
    new_password,
    properties_text,
)

PROTOCOL: Final = "SASL_SSL"
BROKER: Final = "broker"
CLIENT_FILE: Final = "client.properties"
JAVA_FILE: Final = "client-java.properties"
PASSWORDS_FILE: Final = "passwords.properties"  # the file's name
ZOOKEEPER: Final = "zookeeper"


class SecuredCluster:
    """The files of one secured cluster."""

    def __init__(self, folder: Path, servers: str) -> None:
        self.files = CertificateFiles(folder)
        self.client = self.files.folder / CLIENT_FILE
        self._servers = servers
        self._passwords: dict[str, str] = {}

    def prepare(self) -> None:
        """Creates what is missing; raises `CommandFailed`."""
        try:
            self.files.ensure_server()
            self._passwords = self._read_passwords()
            config = self._config()
            java = self.files.folder / JAVA_FILE
            for path, settings in ((self.client, config.librdkafka()), (java, config.java())):
                write_file(path, properties_text(settings).encode(), SECRET_MODE)
        except CertificatesUnavailable as error:
            raise CommandFailed(str(error)) from error
        except (BadProperties, UnicodeDecodeError) as error:
            raise CommandFailed(f"{self._passwords_file} is damaged: {error}") from error

    @property
    def _passwords_file(self) -> Path:
        return self.files.folder / PASSWORDS_FILE

    def _read_passwords(self) -> dict[str, str]:
        try:
            known = read_properties(self._passwords_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = {}
        found = {name: known.get(name) or new_password() for name in (ADMIN, BROKER, ZOOKEEPER)}
        if found != known:
            write_file(self._passwords_file, properties_text(found).encode(), SECRET_MODE)
        return found

    def _config(self) -> ClientConfig:
        return ClientConfig(self._servers, PROTOCOL, self.files.ca, ADMIN, self._passwords[ADMIN])

    @property
    def client_security(self) -> Security:
        """How the command itself connects."""
        return security_of(self._config().librdkafka())

    @property
    def settings(self) -> dict[str, str]:
        """The settings of every broker, without its address."""
        supers = [f"User:{ADMIN}", f"User:{BROKER}"]
        return {
            **broker_settings(PROTOCOL, self.files, supers),
            **broker_login(PROTOCOL, BROKER, self._passwords[BROKER]),
            "headrace.zookeeper.auth": "digest",
            "headrace.zookeeper.username": BROKER,
            "headrace.zookeeper.password": self._passwords[ZOOKEEPER],
            "zookeeper.set.acl": "true",
        }

    def add_users(self, settings: BrokerSettings) -> None:
        """Writes the users into the ZooKeeper of these settings; raises `CommandFailed`."""
        users = {name: self._passwords[name] for name in (ADMIN, BROKER)}
        try:
            asyncio.run(_add_users(settings, FirstUsers(users)))
        except StoreError as error:
            raise CommandFailed(f"cannot store the users in ZooKeeper: {error}") from error


async def _add_users(settings: BrokerSettings, first: FirstUsers) -> None:
    from headrace.cluster.stores.kazoo_client import KazooZooKeeper
    from headrace.cluster.stores.security_znode_planner import SecurityZnodePlanner
    from headrace.cluster.stores.security_znode_reader import StoredSecurity
    from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings
    from headrace.cluster.stores.zookeeper_store import ZooKeeperStore

    found = ZooKeeperSettings.of(settings)
    assert found is not None  # the brokers of a cluster have the setting
    client = KazooZooKeeper(found)
    store = ZooKeeperStore(client, SystemClock())
    await store.open()
    try:
        image = await store.load()
        # Users that exist keep their other credentials: a planner without them would remove them.
        known = {user for user, _ in image.scram_credentials}
        planner = SecurityZnodePlanner(StoredSecurity())
        for record in first.without(known).records(image):
            planner.add(record)
        for ops in planner.steps():
            await client.multi(ops)
    finally:
        await store.close()
