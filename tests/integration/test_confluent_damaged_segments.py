"""librdkafka, which does not verify checksums by default, reads damaged closed segments."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.testing import Broker, Cluster

TOPIC = "t"
CONFIGS = {"segment.bytes": str(1 << 20)}
COUNT = 60
VALUES = [b"%04d" % number * 10_000 for number in range(COUNT)]  # 40 kB each: three segments
DEADLINE_S = 60.0


def segment(data: Path) -> Path:
    """The second of three."""
    return sorted(data.glob(f"{TOPIC}-0/*.log"))[1]


def flip(data: Path) -> None:
    with segment(data).open("r+b") as file:
        file.seek(500_000)
        (byte,) = file.read(1)
        file.seek(500_000)
        file.write(bytes([byte ^ 1]))


def shorten(data: Path) -> None:
    with segment(data).open("r+b") as file:
        file.truncate(500_000)


def remove(data: Path) -> None:
    segment(data).unlink()


def read(
    servers: str, offset: int, count: int, *, to_the_end: bool = True
) -> tuple[dict[int, bytes], KafkaError | None]:
    """The records a consumer gets from `offset` on, up to a permanent error."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + DEADLINE_S
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} were read"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                value = message.value()
                assert value is not None
                found[message.offset() or 0] = value
            elif error.code() == KafkaError.INVALID_MSG and not to_the_end:
                return found, error
    finally:
        consumer.close()
    return found, None


def fill(broker: Broker | Cluster) -> None:
    broker.headrace.create_topic(TOPIC, partitions=1, configs=CONFIGS)
    for value in VALUES:
        broker.headrace.produce(TOPIC, value)


@pytest.mark.parametrize(
    ("damage", "is_stopped"),
    [(flip, False), (flip, True), (shorten, False), (shorten, True), (remove, True)],
)
def test_a_single_broker_rejects_reads_of_damaged_data_and_serves_the_rest(
    damage: Callable[[Path], None], is_stopped: bool, tmp_path: Path
) -> None:
    with Broker(data=tmp_path) as broker:
        fill(broker)
        first, after = (int(each.stem) for each in sorted(tmp_path.glob(f"{TOPIC}-0/*.log"))[1:3])
        if is_stopped:
            broker.stop()
        damage(tmp_path)
        broker.start()
        before, error = read(broker.bootstrap_servers, 0, COUNT, to_the_end=False)
        assert error is not None
        assert first <= len(before) < after
        assert before == dict(enumerate(VALUES[: len(before)]))
        rest, _ = read(broker.bootstrap_servers, after, COUNT - after)
        assert rest == {at: VALUES[at] for at in range(after, COUNT)}
        broker.headrace.produce(TOPIC, b"more")
        assert read(broker.bootstrap_servers, COUNT, 1)[0] == {COUNT: b"more"}


def test_a_cluster_serves_all_records_when_the_leaders_log_is_damaged() -> None:
    with Cluster(brokers=3) as cluster:
        fill(cluster)
        leader = cluster.leader(TOPIC)
        assert cluster._temporary is not None
        data = Path(cluster._temporary.name) / str(leader)
        flip(data)
        damaged = segment(data).read_bytes()
        found, _ = read(cluster.bootstrap_servers, 0, COUNT)
        assert found == dict(enumerate(VALUES))
        cluster.headrace.wait_for(
            lambda: segment(data).read_bytes() != damaged, "it is copied again", timeout_s=30.0
        )
        cluster.wait_until_healthy()
        other = next(path for path in data.parent.iterdir() if path != data)
        assert segment(data).read_bytes() == segment(other).read_bytes()
