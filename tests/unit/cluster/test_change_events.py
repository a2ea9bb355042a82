"""Each change that a request makes is one event; many are summarised, and secrets are masked."""

from headrace.cluster.change_events import change_events
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    FeatureSet,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import CLUSTER_DEFAULT, topic_resource
from headrace.cluster.topology import BrokerRegistration, Partition
from headrace.log_event import LogEvent

ORDERS = bytes(15) + b"\1"
FULL = Partition(replicas=(1, 2), isr=(1, 2), leader=1)
IMAGE = MetadataImage().apply(
    [
        BrokerRegistered(BrokerRegistration(1, 1, ())),
        TopicCreated("orders", ORDERS, (FULL, FULL)),
        ConfigChanged(topic_resource("orders"), "retention.ms", "1000"),
        ConfigChanged(CLUSTER_DEFAULT, "ssl.keystore.password", "old secret"),
    ]
)


def told(*records: MetadataRecord) -> list[tuple[str, dict[str, object]]]:
    return [(each.sentence, dict(each.fields)) for each in change_events(IMAGE, records)]


def test_a_setting_has_its_old_and_its_new_value() -> None:
    resource = topic_resource("orders")
    changes = (
        ConfigChanged(resource, "retention.ms", "2000"),
        ConfigChanged(resource, "retention.ms", None),
        ConfigChanged(resource, "cleanup.policy", "compact"),
    )
    values = [(fields["old"], fields["new"]) for _, fields in told(*changes)]
    assert values == [("1000", "2000"), ("1000", "(default)"), ("(default)", "compact")]
    assert told(changes[0])[0][1]["resource"] == "TOPIC:orders"


def test_a_secret_is_masked() -> None:
    found = told(ConfigChanged(CLUSTER_DEFAULT, "ssl.keystore.password", "new secret"))
    assert "secret" not in str(found)
    assert found == [
        (
            "changed a setting",
            {
                "resource": "BROKER:(all)",
                "setting": "ssl.keystore.password",
                "old": "***",
                "new": "***",
            },
        )
    ]


def test_the_value_of_an_unknown_setting_is_masked() -> None:
    ((_, fields),) = told(ConfigChanged(CLUSTER_DEFAULT, "plugin.api.key", "hunter2"))
    assert fields["new"] == "***"


def test_topics_are_told_one_by_one_or_in_a_summary() -> None:
    new = [TopicCreated(f"t{number}", bytes([number]) * 16, (FULL,)) for number in range(1, 8)]
    assert told(new[0]) == [("created a topic", {"topic": "t1", "partitions": 1, "replicas": 2})]
    assert told(*new) == [
        ("created many topics", {"topics": 7, "examples": "t1, t2, t3, t4, t5 and 2 more"})
    ]
    assert told(TopicDeleted(ORDERS)) == [("deleted a topic", {"topic": "orders", "partitions": 2})]
    assert told(PartitionsAdded(ORDERS, (FULL,))) == [
        ("added partitions to a topic", {"topic": "orders", "old": 2, "new": 3})
    ]


def test_reassignments_and_elections_are_summaries() -> None:
    moving = FULL._replace(replicas=(1, 2, 3), adding=(3,), removing=(2,))
    records = [PartitionChanged(ORDERS, index, moving) for index in (0, 1)]
    assert told(*records) == [
        ("started a reassignment", {"partitions": 2, "examples": "orders-0, orders-1"})
    ]
    cancelled = change_events(IMAGE.apply(records), [PartitionChanged(ORDERS, 0, FULL)])
    assert [each.sentence for each in cancelled] == ["cancelled a reassignment"]
    led = PartitionChanged(ORDERS, 0, FULL._replace(leader=2))
    assert told(led) == [("requested leader elections", {"partitions": 1, "examples": "orders-0"})]


def test_features_and_unregistered_brokers_are_told() -> None:
    assert told(FeatureSet("group.version", 1), BrokerUnregistered(1)) == [
        ("changed a feature level", {"feature": "group.version", "old": 0, "new": 1}),
        ("unregistered a broker", {"broker": 1}),
    ]


def test_users_acls_and_quotas_are_in_the_audit_log_and_not_here() -> None:
    events: list[LogEvent] = list(change_events(IMAGE, ()))
    assert events == []
