"""How long records are kept."""

import time

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from support.clients.librdkafka import DEADLINE_S, MakeReader, MakeSender
from support.waiting import wait_for
from support.wire.topics import MakeTopic

DAY_MS = 24 * 3600 * 1000
WEEK_MS = 7 * DAY_MS


def retention(admin: AdminClient, topic: str) -> tuple[str, ConfigSource]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    entry = entries["retention.ms"]
    return entry.value, ConfigSource(entry.source)


def test_retention_defaults_to_a_week_and_minus_one_is_unlimited(
    admin: AdminClient, make_topic: MakeTopic
) -> None:
    # Invariant: a topic keeps records for a week by default.
    default = retention(admin, make_topic())
    assert default == (str(WEEK_MS), ConfigSource.DEFAULT_CONFIG)
    for_ever = retention(admin, make_topic(configs={"retention.ms": -1}))
    assert for_ever == ("-1", ConfigSource.DYNAMIC_TOPIC_CONFIG)


def test_records_expire_after_a_week_unless_retention_is_unlimited(
    make_topic: MakeTopic, sender: MakeSender, reader: MakeReader
) -> None:
    # Invariant: records older than a week expire; -1 keeps records of any age.
    now_ms = int(time.time() * 1000)
    for_ever, younger, older = make_topic(configs={"retention.ms": -1}), make_topic(), make_topic()
    one = sender()
    one.send(for_ever, b"old", timestamp=now_ms - 3650 * DAY_MS)
    one.send(younger, b"young", timestamp=now_ms - 6 * DAY_MS)
    one.finish()
    one.send(older, b"old", timestamp=now_ms - 8 * DAY_MS)
    one.finish()
    consumer = reader().consumer

    def start_of(topic: str) -> int:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S)
        return int(low)

    wait_for(lambda: start_of(older) == 1, "the old record goes", deadline_s=DEADLINE_S)
    assert (start_of(for_ever), start_of(younger)) == (0, 0)
