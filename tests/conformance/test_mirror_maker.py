"""MirrorMaker 2 moves a topic and a group from Apache Kafka to Headrace, and back.

docs/guide/migration-from-kafka.md has the settings; the test takes them from there.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.clients.java import NODE_JVM, KafkaNode
from support.waiting import wait_for

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        not os.environ.get("HEADRACE_MIRROR_MAKER_LIB"), reason="needs script/conformance"
    ),
]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "migration-from-kafka.md"
BLOCK = re.compile(r"^ *```properties\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
DEADLINE_S = 60.0
READ_S = 30.0
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
ONE_BROKER = (
    *("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)
QUICKLY = ("sync.group.offsets", "emit.checkpoints", "refresh.topics", "refresh.groups")


def settings(back: bool, servers: dict[str, str], topic: str) -> str:
    """The lines of the guide for one direction, for clusters of one broker on this machine."""
    there, then = BLOCK.findall(GUIDE.read_text())
    found = {}
    for line in (there + (then if back else "")).splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name] = value
    for cluster, address in servers.items():
        found[f"{cluster}.bootstrap.servers"] = address
    found["headrace->kafka.topics" if back else "kafka->headrace.topics"] = topic
    found |= {f"{name}.replication.factor": "1" for name in (*ONE_BROKER,)}
    found |= {f"{name}.interval.seconds": "1" for name in QUICKLY}
    found["replication.factor"] = "1"
    return "".join(f"{name}={value}\n" for name, value in found.items())


@contextmanager
def mirror_maker(home: Path, properties: str, kafka_lib: str) -> Iterator[Path]:
    home.mkdir()
    (home / "mm2.properties").write_text(properties)
    classes = f"{kafka_lib}/*:{os.environ['HEADRACE_MIRROR_MAKER_LIB']}/*"
    command = ["java", *NODE_JVM, LOG_LEVEL, "-cp", classes]
    log = home / "mirror-maker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(home / "mm2.properties")],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=home,
        )
    try:
        yield log
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from error
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def write(servers: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(READ_S) == 0


def read(servers: str, topic: str, group: str, count: int) -> list[int]:
    """The next records of the group, which commits them and leaves."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[int] = []
    try:
        while len(found) < count:
            message = consumer.poll(READ_S)
            assert message is not None, found
            assert message.error() is None, message.error()
            found.append(int(message.value()))
            consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()
    return found


def records(servers: str, topic: str) -> list[tuple[int, int]]:
    """The offset and the number in each committed record."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "count",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[int, int]] = []
    try:
        while (message := consumer.poll(READ_S)) is not None and message.error() is None:
            found.append((message.offset(), int(message.value())))
        return found
    finally:
        consumer.close()


def next_number(servers: str, topic: str, group: str) -> int:
    """The number of the record with which the group continues; -1 if it has no offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=READ_S)
    finally:
        consumer.close()
    if place.offset < 0:
        return -1
    return sum(offset < place.offset for offset, _ in records(servers, topic))


class Groups:
    """Two groups: one has read everything, one is in the middle."""

    def __init__(self, name: str, topic: str) -> None:
        self.done, self.behind = f"done-{name}", f"behind-{name}"
        self._topic = topic

    def are_copied(self, servers: str, end: int, behind: int) -> bool:
        """Whether the topic has the records 0 to `end`, and the groups skip none of theirs.

        MirrorMaker translates exactly near the end of the topic, and to an earlier offset before.
        """
        admin = AdminClient({"bootstrap.servers": servers})
        if self._topic not in admin.list_topics(timeout=READ_S).topics:
            return False
        found = [number for _, number in records(servers, self._topic)]
        return (
            found == list(range(end))
            and next_number(servers, self._topic, self.done) == end
            and 0 < next_number(servers, self._topic, self.behind) <= behind
        )


def test_a_topic_and_groups_move_to_headrace_and_back(
    kafka: KafkaNode, broker: object, bootstrap: str, kafka_lib: str, name: str, tmp_path: Path
) -> None:
    """Groups continue where they were or a little earlier, although the offsets differ."""
    servers = {"kafka": kafka.bootstrap_servers, "headrace": bootstrap}
    groups = Groups(name, name)
    source = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    source.create_topics([NewTopic(name, 1, 1)])[name].result()
    write(kafka.bootstrap_servers, name, range(-10, 0))
    # Offsets in Headrace will be smaller by these ten records.
    source.delete_records([TopicPartition(name, 0, 10)])[TopicPartition(name, 0, 10)].result()
    write(kafka.bootstrap_servers, name, range(100))
    assert read(kafka.bootstrap_servers, name, groups.done, 100) == list(range(100))
    assert read(kafka.bootstrap_servers, name, groups.behind, 40) == list(range(40))

    with mirror_maker(tmp_path / "there", settings(False, servers, name), kafka_lib):
        wait_for(
            lambda: groups.are_copied(bootstrap, 100, 40),
            "all records and the offsets are in Headrace",
            deadline_s=DEADLINE_S,
        )
    write(bootstrap, name, range(100, 120))
    assert read(bootstrap, name, groups.done, 20) == list(range(100, 120))
    first = next_number(bootstrap, name, groups.behind)
    assert read(bootstrap, name, groups.behind, 70 - first) == list(range(first, 70))

    source.delete_topics([name])[name].result()
    with mirror_maker(tmp_path / "back", settings(True, servers, name), kafka_lib):
        wait_for(
            lambda: groups.are_copied(kafka.bootstrap_servers, 120, 70),
            "all records and the offsets are in Kafka",
            deadline_s=DEADLINE_S,
        )
    first = next_number(kafka.bootstrap_servers, name, groups.behind)
    assert read(kafka.bootstrap_servers, name, groups.behind, 120 - first) == [*range(first, 120)]
