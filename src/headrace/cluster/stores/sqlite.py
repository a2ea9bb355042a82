"""The embedded metadata store: one SQLite file, or memory.

Every batch is one transaction in a write-ahead log that is fsynced before `commit` returns, so an
acknowledged topic survives a power loss. The file is locked by one process at a time. A broker's
registration ends with its process: opening the file fences the brokers of earlier processes.
Only the owner of the file may read it, because it contains credentials.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.cluster.image import ImageError, MetadataImage
from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    LeaderRestarted,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
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
from headrace.cluster.resources import ConfigResource, ConfigResourceType
from headrace.cluster.stores.private_file import make_private, tighten
from headrace.cluster.stores.security_tables import (
    create_security_tables,
    stored_security_records,
    write_security_record,
)
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition

IN_MEMORY: Final = ":memory:"
SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x48445243  # "HDRC": distinguishes this file from other SQLite files

_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE topic (topic INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE);
CREATE TABLE partition (
    topic INTEGER NOT NULL, number INTEGER NOT NULL, leader INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL, partition_epoch INTEGER NOT NULL, replicas TEXT NOT NULL,
    isr TEXT NOT NULL, eligible TEXT NOT NULL, adding TEXT NOT NULL, removing TEXT NOT NULL,
    PRIMARY KEY (topic, number)
) WITHOUT ROWID;
CREATE TABLE config (
    type INTEGER NOT NULL, resource TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (type, resource, name)
) WITHOUT ROWID;
CREATE TABLE broker (
    id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, endpoints TEXT NOT NULL, rack TEXT,
    incarnation BLOB NOT NULL, fenced INTEGER NOT NULL
);
CREATE TABLE feature (name TEXT PRIMARY KEY, level INTEGER NOT NULL) WITHOUT ROWID;
"""

# Bits of the column `fenced`.
_FENCED: Final = 1
_LEAVING: Final = 2

_SIDE_FILES: Final = ("-wal", "-shm", "-journal")

_PartitionRow = tuple[int, int, int, str, str, str, str, str]


class SqliteStore:
    """A `MetadataStore` in a file, or in memory for tests and temporary brokers."""

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        # The broker may call from worker threads; one lock keeps each transaction whole.
        self._lock = threading.Lock()
        if self._path != IN_MEMORY:
            self._protect_files()
        with self._translate_errors():
            self._db = sqlite3.connect(
                self._path, timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            self._open_database()
        except BaseException:
            self._db.close()
            raise

    def load(self) -> MetadataImage:
        with self._lock, self._translate_errors():
            version = self._read_version()
            try:
                image = MetadataImage().apply(self._stored_records())
            except (ImageError, ValueError, TypeError) as error:
                raise CorruptStore(f"{self._path} is inconsistent: {error}") from error
            return image.at_version(version)

    def commit(self, records: Sequence[MetadataRecord], *, expected_version: int) -> int:
        with self._lock, self._translate_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                version = self._read_version()
                if version != expected_version:
                    raise StaleVersion(expected_version, version)
                for record in records:
                    self._write_record(record)
                self._put_meta("version", version + 1)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            return version + 1

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # -- opening ----------------------------------------------------------------------------

    def _protect_files(self) -> None:
        path = Path(self._path)
        try:
            make_private(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be created: {error.strerror}") from error
        # SQLite creates these with the mode of the database; an older version left them open.
        for suffix in _SIDE_FILES:
            tighten(path.with_name(path.name + suffix))

    def _open_database(self) -> None:
        with self._translate_errors():
            # Only one process may open the file: no shared-memory file and no second writer.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            # In WAL mode FULL means that each commit fsyncs the log before it returns.
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")  # takes the lock now, not at the first commit
            try:
                self._check_or_create()
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _check_or_create(self) -> None:
        application_id = self._pragma("application_id")
        tables = self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application_id == 0 and tables == 0:
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._put_meta("schema_version", SCHEMA_VERSION)
            self._put_meta("version", 0)
            create_security_tables(self._db)
            return
        if application_id != APPLICATION_ID:
            raise CorruptStore(f"{self._path} is a database, but not one of Headrace's")
        problem = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise CorruptStore(f"{self._path} is damaged: {problem}")
        self._check_schema_version()
        create_security_tables(self._db)
        self._db.execute("UPDATE broker SET fenced = 1 WHERE fenced != 1")

    def _check_schema_version(self) -> None:
        found = self._read_meta("schema_version")
        if not isinstance(found, int) or found < 1:
            raise CorruptStore(f"{self._path} has no schema version")
        if found > SCHEMA_VERSION:
            raise NewerStore(
                f"{self._path} was written by a newer Headrace (schema {found}; this one reads up "
                f"to {SCHEMA_VERSION}): upgrade, or start with another data directory"
            )

    def _pragma(self, name: str) -> int:
        value: int = self._db.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translates SQLite's errors into store errors with the file and a remedy."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise StoreInUse(
                    f"{self._path} is in use by another process: stop that process, or start with "
                    "another data directory"
                ) from error
            if error.sqlite_errorname == "SQLITE_FULL":
                raise StoreError(
                    f"{self._path} cannot grow: the disk is full; free some space or enlarge it"
                ) from error
            raise StoreError(f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise CorruptStore(f"{self._path} is damaged: {error}") from error

    # -- reading ----------------------------------------------------------------------------

    def _read_meta(self, name: str) -> object:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def _read_version(self) -> int:
        version = self._read_meta("version")
        if not isinstance(version, int):
            raise CorruptStore(f"{self._path} has no version")
        return version

    def _stored_records(self) -> Iterator[MetadataRecord]:
        """The stored state as the records that build it."""
        meta = dict(self._db.execute("SELECT name, value FROM meta"))
        yield ClusterNamed(meta.get("cluster_id", ""))
        yield ControllerElected(meta.get("controller_id", -1), meta.get("controller_epoch", 0))
        yield ProducerIdsReserved(meta.get("next_producer_id", 0))
        for name, level in self._db.execute("SELECT name, level FROM feature"):
            yield FeatureSet(name, level)
        yield from self._stored_brokers()
        yield from self._stored_topics()
        for type_, resource, name, value in self._db.execute(
            "SELECT type, resource, name, value FROM config"
        ):
            yield ConfigChanged(ConfigResource(ConfigResourceType(type_), resource), name, value)
        yield from stored_security_records(self._db)

    def _stored_brokers(self) -> Iterator[MetadataRecord]:
        directories = dict(
            self._db.execute(
                "SELECT name, value FROM meta WHERE name LIKE ?", (_directories_key("%"),)
            )
        )
        for id_, epoch, endpoints, rack, incarnation, fenced in self._db.execute(
            "SELECT id, epoch, endpoints, rack, incarnation, fenced FROM broker"
        ):
            addresses = tuple(Endpoint(*fields) for fields in json.loads(endpoints))
            broker = BrokerRegistration(id_, epoch, addresses, rack, incarnation)
            yield BrokerRegistered(
                broker._replace(
                    fenced=bool(fenced & _FENCED),
                    leaving=bool(fenced & _LEAVING),
                    directories=tuple(json.loads(directories.get(_directories_key(id_), "[]"))),
                )
            )

    def _stored_topics(self) -> Iterator[MetadataRecord]:
        partitions: dict[int, list[Partition]] = {}
        # Most partitions of a node are in the same state and share one object.
        states: dict[_PartitionRow, Partition] = {}
        for topic, number, *state in self._db.execute(
            "SELECT topic, number, leader, leader_epoch, partition_epoch, replicas, isr,"
            " eligible, adding, removing FROM partition ORDER BY topic, number"
        ):
            found = partitions.setdefault(topic, [])
            if number != len(found):
                raise ValueError(f"partition {len(found)} of topic row {topic} is missing")
            row: _PartitionRow = tuple(state)
            partition = states.get(row)
            if partition is None:
                partition = states[row] = _read_partition(row)
            found.append(partition)
        for topic, id_, name in self._db.execute("SELECT topic, id, name FROM topic"):
            yield TopicCreated(name, id_, tuple(partitions.pop(topic, ())))
        if partitions:
            raise ValueError(f"partitions of topic row {min(partitions)} have no topic")

    # -- writing ----------------------------------------------------------------------------

    def _put_meta(self, name: str, value: str | int) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def _write_record(self, record: MetadataRecord) -> None:
        match record:
            case TopicCreated(name, topic_id, partitions):
                row = self._db.execute(
                    "INSERT INTO topic (id, name) VALUES (?, ?)", (topic_id, name)
                ).lastrowid
                assert row is not None
                self._insert_partitions(row, 0, partitions)
            case PartitionsAdded(topic_id, partitions):
                row = self._topic_row(topic_id)
                first = self._db.execute(
                    "SELECT count(*) FROM partition WHERE topic = ?", (row,)
                ).fetchone()[0]
                self._insert_partitions(row, first, partitions)
            case PartitionChanged(topic_id, index, partition):
                self._change_partition(self._topic_row(topic_id), index, partition)
            case TopicDeleted(topic_id):
                self._delete_topic(topic_id)
            case LeaderRestarted(broker_id):
                self._db.execute(
                    "UPDATE partition SET leader_epoch = leader_epoch + 1,"
                    " partition_epoch = partition_epoch + 1 WHERE leader = ?",
                    (broker_id,),
                )
            case ConfigChanged():
                self._write_config(record)
            case BrokerRegistered() | BrokerFenced() | BrokerLeaving() | BrokerUnregistered():
                self._write_broker(record)
            case FeatureSet(name, 0):
                self._db.execute("DELETE FROM feature WHERE name = ?", (name,))
            case FeatureSet(name, level):
                self._db.execute("INSERT OR REPLACE INTO feature VALUES (?, ?)", (name, level))
            case ProducerIdsReserved(next_producer_id):
                self._put_meta("next_producer_id", next_producer_id)
            case ControllerElected(controller_id, controller_epoch):
                self._put_meta("controller_id", controller_id)
                self._put_meta("controller_epoch", controller_epoch)
            case ClusterNamed(cluster_id):
                self._put_meta("cluster_id", cluster_id)
            case _:
                write_security_record(self._db, record)

    def _topic_row(self, topic_id: bytes) -> int:
        row = self._db.execute("SELECT topic FROM topic WHERE id = ?", (topic_id,)).fetchone()
        if row is None:
            raise StoreError(f"{self._path} has no topic with the id {topic_id.hex()}")
        topic: int = row[0]
        return topic

    def _insert_partitions(self, topic: int, first: int, partitions: Iterable[Partition]) -> None:
        texts: dict[Partition, _PartitionRow] = {}
        rows = []
        for number, partition in enumerate(partitions, first):
            text = texts.get(partition)
            if text is None:
                text = texts[partition] = _partition_row(partition)
            rows.append((topic, number, *text))
        self._db.executemany("INSERT INTO partition VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def _change_partition(self, topic: int, index: int, partition: Partition) -> None:
        changed = self._db.execute(
            "UPDATE partition SET leader = ?, leader_epoch = ?, partition_epoch = ?,"
            " replicas = ?, isr = ?, eligible = ?, adding = ?, removing = ?"
            " WHERE topic = ? AND number = ?",
            (*_partition_row(partition), topic, index),
        ).rowcount
        if changed != 1:
            raise StoreError(f"{self._path} has no partition {index} in topic row {topic}")

    def _delete_topic(self, topic_id: bytes) -> None:
        row = self._topic_row(topic_id)
        self._db.execute(
            "DELETE FROM config WHERE type = ? AND resource ="
            " (SELECT name FROM topic WHERE topic = ?)",
            (int(ConfigResourceType.TOPIC), row),
        )
        self._db.execute("DELETE FROM partition WHERE topic = ?", (row,))
        self._db.execute("DELETE FROM topic WHERE topic = ?", (row,))

    def _write_config(self, record: ConfigChanged) -> None:
        key = (int(record.resource.type), record.resource.name, record.name)
        if record.value is None:
            self._db.execute("DELETE FROM config WHERE type = ? AND resource = ? AND name = ?", key)
        else:
            self._db.execute(
                "INSERT OR REPLACE INTO config VALUES (?, ?, ?, ?)", (*key, record.value)
            )

    def _write_broker(
        self, record: BrokerRegistered | BrokerFenced | BrokerLeaving | BrokerUnregistered
    ) -> None:
        match record:
            case BrokerRegistered(broker):
                self._db.execute(
                    "INSERT OR REPLACE INTO broker VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        broker.broker_id,
                        broker.epoch,
                        json.dumps(broker.endpoints),
                        broker.rack,
                        broker.incarnation_id,
                        _FENCED * broker.fenced | _LEAVING * broker.leaving,
                    ),
                )
                self._put_directories(broker)
            case BrokerFenced(broker_id):
                self._mark_broker(broker_id, _FENCED)
            case BrokerLeaving(broker_id):
                self._mark_broker(broker_id, _LEAVING)
            case BrokerUnregistered(broker_id):
                self._db.execute("DELETE FROM broker WHERE id = ?", (broker_id,))
                self._put_directories(BrokerRegistration(broker_id, -1, ()))

    def _put_directories(self, broker: BrokerRegistration) -> None:
        name = _directories_key(broker.broker_id)
        if broker.directories:
            self._put_meta(name, json.dumps(broker.directories))
        else:
            self._db.execute("DELETE FROM meta WHERE name = ?", (name,))

    def _mark_broker(self, broker_id: int, bit: int) -> None:
        self._db.execute("UPDATE broker SET fenced = fenced | ? WHERE id = ?", (bit, broker_id))


def _directories_key(broker_id: int | str) -> str:
    """The name in `meta` of a broker's directories; the broker table has no column for them."""
    return f"directories of broker {broker_id}"


def _parse_ids(text: str) -> tuple[int, ...]:
    return tuple(int(id_) for id_ in text.split(",")) if text else ()


def _join_ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _read_partition(row: _PartitionRow) -> Partition:
    leader, leader_epoch, partition_epoch, replicas, isr, eligible, adding, removing = row
    return Partition(
        replicas=_parse_ids(replicas),
        isr=_parse_ids(isr),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        eligible_leaders=_parse_ids(eligible),
        adding=_parse_ids(adding),
        removing=_parse_ids(removing),
    )


def _partition_row(partition: Partition) -> _PartitionRow:
    return (
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        _join_ids(partition.replicas),
        _join_ids(partition.isr),
        _join_ids(partition.eligible_leaders),
        _join_ids(partition.adding),
        _join_ids(partition.removing),
    )
