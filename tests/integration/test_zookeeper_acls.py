"""With zookeeper.set.acl, other clients of ZooKeeper read no secrets and change nothing."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from headrace.clock import SystemClock
from headrace.cluster.image import MetadataImage
from headrace.cluster.stores.kazoo_client import KazooZooKeeper
from headrace.cluster.stores.zookeeper_settings import DIGEST, ZooKeeperSettings
from headrace.cluster.stores.zookeeper_store import ZooKeeperStore
from headrace.zookeeper_server import ZooKeeperServer
from support.brokers.security_records import SECURITY_RECORDS

USER = "/config/users/alice"
TOKEN = "/delegation_token/tokens/token-1"
ACLS = "/kafka-acl/Topic/orders"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def settings(zookeeper: ZooKeeperServer, chroot: str, *, protected: bool) -> ZooKeeperSettings:
    connect = zookeeper.address + chroot
    if not protected:
        return ZooKeeperSettings(connect)
    return ZooKeeperSettings(connect, set_acl=True, auth=DIGEST, username="broker", password="hush")


async def store_security_records(connection: ZooKeeperSettings) -> MetadataImage:
    store = ZooKeeperStore(KazooZooKeeper(connection), SystemClock())
    await store.open()
    try:
        controller = await store.elect(1)
        assert controller is not None
        await store.load()
        await store.commit(SECURITY_RECORDS[:4], controller)
        await store.commit(SECURITY_RECORDS, controller)
        return await store.load()
    finally:
        await store.close()


@contextmanager
def anonymous(zookeeper: ZooKeeperServer, chroot: str) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.address + chroot)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_secrets_are_only_for_brokers_and_acls_are_only_changed_by_brokers(
    zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        image = asyncio.run(
            store_security_records(settings(zookeeper, "/protected", protected=True))
        )
    assert image.scram_credentials == MetadataImage().apply(SECURITY_RECORDS).scram_credentials
    assert not caplog.records
    with anonymous(zookeeper, "/protected") as client:
        for path in (USER, TOKEN, "/config/users", "/delegation_token/tokens"):
            with pytest.raises(NoAuthError):
                client.get(path)
        assert b"User:alice" in client.get(ACLS)[0]
        for path in (USER, TOKEN, ACLS):
            parent = path.rpartition("/")[0]
            with pytest.raises(NoAuthError):
                client.set(path, b"{}")
            with pytest.raises(NoAuthError):
                client.delete(path)
            with pytest.raises(NoAuthError):
                client.create(f"{parent}/intruder", b"{}")


def test_secrets_that_everyone_can_read_are_reported_once(
    zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        asyncio.run(store_security_records(settings(zookeeper, "/open", protected=False)))
    (record,) = caplog.records
    message = record.getMessage()
    assert "zookeeper.set.acl" in message
    assert "/config/users" in message
    with anonymous(zookeeper, "/open") as client:
        assert b"SCRAM-SHA-256" in client.get(USER)[0]


def test_secrets_in_znodes_from_before_set_acl_are_reported(
    zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(store_security_records(settings(zookeeper, "/later", protected=False)))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        asyncio.run(store_security_records(settings(zookeeper, "/later", protected=True)))
    assert len(caplog.records) == 1
