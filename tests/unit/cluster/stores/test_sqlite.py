"""The SQLite store keeps every acknowledged commit and refuses files that it cannot read."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerRegistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    LeaderRestarted,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    ScramCredentialChanged,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.metadata_store import (
    CorruptStore,
    NewerStore,
    StaleVersion,
    StoreError,
    StoreInUse,
)
from headrace.cluster.resources import CLUSTER_DEFAULT, topic_resource
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition
from support.brokers.security_records import SECRET, SECURITY_RECORDS, SECURITY_REMOVALS

ONE = Partition(replicas=(1,), isr=(1,), leader=1)
A, B = b"a" * 16, b"b" * 16


def batches() -> list[list[MetadataRecord]]:
    """Every kind of record at least once."""
    wide = Partition((1, 2, 3), (2, 1), 2, 7, 9, (3,), (3,), (1,))
    return [
        [ClusterNamed("cluster"), ControllerElected(1, 4), FeatureSet("share.version", 1)],
        [BrokerRegistered(BrokerRegistration(1, 2, (Endpoint("PLAIN", "héllo", 9092),), "rack"))],
        [BrokerRegistered(BrokerRegistration(2, 3, (), directories=("one", "two")))],
        [TopicCreated("a", A, (ONE, ONE)), ConfigChanged(topic_resource("a"), "x", "1")],
        [TopicCreated("b", B, (wide,)), ConfigChanged(topic_resource("b"), "y", "2")],
        [PartitionsAdded(A, (ONE, wide)), PartitionChanged(A, 1, wide), LeaderRestarted(1)],
        [ConfigChanged(CLUSTER_DEFAULT, "n", "5"), ProducerIdsReserved(1000)],
        [TopicDeleted(B), FeatureSet("share.version", 0), FeatureSet("group.version", 1)],
        [ConfigChanged(topic_resource("a"), "x", None)],
        [*SECURITY_RECORDS],
        [*SECURITY_RECORDS, *SECURITY_REMOVALS, *SECURITY_REMOVALS],
        [*SECURITY_RECORDS],
    ]


def commit_all(store: SqliteStore) -> MetadataImage:
    image = store.load()
    for batch in batches():
        assert store.commit(batch, expected_version=image.version) == image.version + 1
        image = image.apply(batch)
        assert store.load() == image
    return image


def test_a_loaded_image_equals_the_one_built_from_the_same_records() -> None:
    store = SqliteStore(IN_MEMORY)
    commit_all(store)
    store.close()


def test_a_reopened_store_has_every_commit_and_fences_registrations(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteStore(path)
    image = commit_all(store)
    store.close()
    again = SqliteStore(path)
    loaded = again.load()
    again.close()
    assert loaded.version == image.version
    assert loaded.topics == image.topics
    assert loaded.configs == image.configs
    assert (loaded.next_producer_id, loaded.controller_epoch) == (1000, 4)
    assert loaded.brokers[1].fenced
    assert list(loaded.acls) == list(image.acls)
    assert loaded.scram_credentials == image.scram_credentials
    assert loaded.quotas == image.quotas
    assert loaded.delegation_tokens == image.delegation_tokens
    assert loaded.brokers[1].endpoints == image.brokers[1].endpoints


def test_a_commit_against_another_version_changes_nothing() -> None:
    store = SqliteStore(IN_MEMORY)
    store.commit([ClusterNamed("one")], expected_version=0)
    with pytest.raises(StaleVersion):
        store.commit([ClusterNamed("two")], expected_version=0)
    assert store.load().cluster_id == "one"
    store.close()


def test_a_failed_batch_changes_nothing() -> None:
    store = SqliteStore(IN_MEMORY)
    with pytest.raises(StoreError):
        store.commit([TopicCreated("a", A, (ONE,)), TopicDeleted(B)], expected_version=0)
    assert store.load() == MetadataImage()
    assert store.commit([TopicCreated("a", A, (ONE,))], expected_version=0) == 1
    store.close()


def test_a_new_topic_inherits_nothing_from_a_deleted_one() -> None:
    store = SqliteStore(IN_MEMORY)
    store.commit([TopicCreated("a", A, (ONE,) * 5)], expected_version=0)
    store.commit([TopicDeleted(A), TopicCreated("a", B, (ONE,) * 2)], expected_version=1)
    topics = store.load().topics
    assert (topics["a"].topic_id, len(topics["a"].partitions)) == (B, 2)
    store.commit([TopicDeleted(B)], expected_version=2)
    assert store.load().topics == {}
    store.close()


def test_a_change_of_an_unknown_partition_is_refused() -> None:
    store = SqliteStore(IN_MEMORY)
    store.commit([TopicCreated("a", A, (ONE,))], expected_version=0)
    with pytest.raises(StoreError, match="no partition 1"):
        store.commit([PartitionChanged(A, 1, ONE)], expected_version=1)
    assert store.load().version == 1
    store.close()


KILLED_AFTER_ITS_COMMITS = """
import os, signal, sys
from headrace.cluster.metadata_records import ClusterNamed
from headrace.cluster.stores.sqlite import SqliteStore
from support.brokers.security_records import SECURITY_RECORDS

store = SqliteStore(sys.argv[1])
for version in range(20):
    store.commit([ClusterNamed(f"c{version}"), *SECURITY_RECORDS], expected_version=version)
os.kill(os.getpid(), signal.SIGKILL)
"""


def commit_and_be_killed(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AFTER_ITS_COMMITS, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def test_commits_survive_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    commit_and_be_killed(path)
    store = SqliteStore(path)
    image = store.load()
    store.close()
    assert image == MetadataImage().apply([ClusterNamed("c19"), *SECURITY_RECORDS]).at_version(20)


def test_a_full_disk_error_says_what_to_do(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "metadata.db")
    try:
        store._db.execute(
            "PRAGMA max_page_count = 1"
        )  # the minimum is the current size of the file
        with pytest.raises(StoreError, match=r"metadata\.db .* the disk is full; free some space"):
            store.commit([ClusterNamed("c" * 100_000)], expected_version=0)
    finally:
        store.close()


def test_a_failed_commit_of_credentials_shows_no_secret(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "metadata.db")
    try:
        store._db.execute("PRAGMA max_page_count = 1")
        records = SECURITY_RECORDS * 2_000
        changed = [record for record in records if isinstance(record, ScramCredentialChanged)]
        users = [record._replace(user=f"u{n}") for n, record in enumerate(changed)]
        with pytest.raises(StoreError) as caught:
            store.commit(users, expected_version=0)
    finally:
        store.close()
    assert SECRET.decode() not in "".join(traceback.format_exception(caught.value))


def test_a_second_process_gets_a_file_in_use_error(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "metadata.db")
    with pytest.raises(StoreInUse, match="in use by another process"):
        SqliteStore(tmp_path / "metadata.db")
    store.close()


def test_a_file_that_is_not_a_database_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(random.Random(1).randbytes(8192))
    with pytest.raises(CorruptStore, match=r"metadata\.db"):
        SqliteStore(path)


def test_a_foreign_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(CorruptStore, match="not one of Headrace's"):
        SqliteStore(path)


def test_a_newer_schema_error_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = 99 WHERE name = 'schema_version'")
    db.close()
    with pytest.raises(NewerStore, match="upgrade"):
        SqliteStore(path)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM partition WHERE number = 0",
        "UPDATE partition SET isr = 'x' WHERE number = 0",
        "DELETE FROM partition",
        "DELETE FROM topic",
        "UPDATE meta SET value = 'x' WHERE name = 'version'",
        "INSERT INTO config VALUES (3, 'a', 'b', 'c')",
        "UPDATE broker SET endpoints = '7'",
        "UPDATE acl SET operation = 99",
        "UPDATE scram_credential SET stored_key = 'text'",
        "UPDATE client_quota SET entity = '7'",
        "UPDATE delegation_token SET owner = 'alice'",
    ],
)
def test_inconsistent_rows_are_reported_as_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteStore(path)
    commit_all(store)
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(damage)
    db.close()
    store = SqliteStore(path)
    with pytest.raises(CorruptStore):
        store.load()
    store.close()


SECURITY_TABLES = ("acl", "scram_credential", "client_quota", "delegation_token")


def test_a_file_of_version_0_1_0_gets_the_security_tables_and_stays_readable_for_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteStore(path)
    before = commit_all(store)
    store.close()
    with sqlite3.connect(path) as db:
        for table in SECURITY_TABLES:
            db.execute(f"DROP TABLE {table}")
    db.close()
    store = SqliteStore(path)
    assert store.load().topics == before.topics
    assert not store.load().acls
    store.commit(SECURITY_RECORDS, expected_version=before.version)
    assert store.load().acls == before.acls
    store.close()
    with sqlite3.connect(path) as db:
        version = db.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
    db.close()
    assert version == (1,), "version 0.1.0 ignores the new tables and refuses other versions"


def modes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_read_the_files(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = SqliteStore(tmp_path / "metadata.db")
        commit_all(store)
        found = modes(tmp_path)
        store.close()
    finally:
        os.umask(before)
    assert found == {"metadata.db": 0o600, "metadata.db-wal": 0o600}
    assert set(modes(tmp_path).values()) == {0o600}


def test_the_files_of_a_killed_older_version_are_tightened(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    commit_and_be_killed(path)
    assert set(modes(tmp_path)) == {"metadata.db", "metadata.db-wal"}
    for file in tmp_path.iterdir():
        file.chmod(0o644)
    store = SqliteStore(path)
    assert store.load().version == 20
    assert set(modes(tmp_path).values()) == {0o600}
    store.close()


def test_a_missing_directory_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        SqliteStore(tmp_path / "nowhere" / "metadata.db")


@pytest.mark.parametrize(("topics", "partitions"), [(1, 10_000), (10, 1_000), (10_000, 1)])
def test_ten_thousand_partitions_are_stored_and_loaded_quickly(
    tmp_path: Path, topics: int, partitions: int
) -> None:
    store = SqliteStore(tmp_path / "metadata.db")
    records = [
        TopicCreated(f"t{n}", n.to_bytes(16, "big"), (ONE,) * partitions) for n in range(topics)
    ]
    started = time.process_time()
    store.commit(records, expected_version=0)
    committed = time.process_time()
    image = store.load()
    loaded = time.process_time()
    store.close()
    assert image.partition_count == 10_000
    # The goal is 200 ms for each on an idle core. CPU time, so that a busy disk does not matter.
    assert committed - started < 1
    assert loaded - committed < 1
