"""The image changes only by records, and never in place."""

from dataclasses import replace

import pytest

from headrace.cluster.image import ImageError, MetadataImage
from headrace.cluster.metadata_records import (
    AclCreated,
    AclDeleted,
    BrokerFenced,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ConfigChanged,
    DelegationTokenChanged,
    FeatureSet,
    LeaderRestarted,
    PartitionChanged,
    PartitionsAdded,
    ScramCredentialChanged,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import CLUSTER_DEFAULT, topic_resource
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition
from headrace.security.sasl.scram_credential import ScramMechanism
from support.brokers.security_records import (
    ALICE,
    CREDENTIAL,
    PREFIX_ACL,
    SECURITY_RECORDS,
    SECURITY_REMOVALS,
    TOKEN,
    TOPIC_ACL,
)

ONE = Partition(replicas=(1,), isr=(1,), leader=1)
A, B = b"a" * 16, b"b" * 16


def with_topic() -> MetadataImage:
    return MetadataImage().apply([TopicCreated("a.b", A, (ONE, ONE))])


def test_a_topic_is_found_by_name_and_by_id_as_the_same_object() -> None:
    image = with_topic()
    assert image.topics["a.b"] is image.topics_by_id[A]
    assert image.partition("a.b", 1) is ONE
    assert image.partition("a.b", 2) is None
    assert image.partition("a.b", -1) is None
    assert image.partition("nope", 0) is None
    assert (image.version, image.partition_count) == (1, 2)


def test_applying_records_does_not_change_the_previous_image() -> None:
    before = with_topic()
    after = before.apply([TopicDeleted(A), ConfigChanged(CLUSTER_DEFAULT, "x", "1")])
    assert "a.b" in before.topics
    assert A in before.topics_by_id
    assert before.config(CLUSTER_DEFAULT) == {}
    assert after.topics == {}
    assert after.topics_by_id == {}


def test_tables_that_a_change_does_not_touch_are_shared() -> None:
    before = with_topic()
    after = before.apply([FeatureSet("share.version", 1)])
    assert after.topics is before.topics
    assert after.version == before.version + 1


def test_deleting_a_topic_removes_its_configs_and_its_collision_key() -> None:
    image = with_topic().apply([ConfigChanged(topic_resource("a.b"), "x", "1")])
    assert image.collisions == {"a_b": "a.b"}
    gone = image.apply([TopicDeleted(A)])
    assert gone.collisions == {}
    assert gone.configs == {}
    assert gone.partition_count == 0


def test_a_topic_deleted_and_created_again_in_one_batch_has_the_new_id() -> None:
    image = with_topic().apply([TopicDeleted(A), TopicCreated("a.b", B, (ONE,))])
    assert image.topics["a.b"].topic_id == B
    assert A not in image.topics_by_id
    assert image.partition_count == 1


def test_partitions_grow_and_change() -> None:
    moved = ONE._replace(leader_epoch=5)
    image = with_topic().apply([PartitionsAdded(A, (ONE,)), PartitionChanged(A, 2, moved)])
    assert image.topics["a.b"].partitions == (ONE, ONE, moved)
    assert image.topics["a.b"] is image.topics_by_id[A]


def test_a_returned_leader_gets_a_new_epoch_only_where_it_leads() -> None:
    other = ONE._replace(leader=2)
    image = MetadataImage().apply([TopicCreated("t", A, (ONE, other, ONE)), LeaderRestarted(1)])
    first, second, third = image.topics["t"].partitions
    assert (first.leader_epoch, first.partition_epoch) == (1, 1)
    assert second is other
    assert first is third, "partitions in one state are one object"


def test_brokers_are_registered_fenced_and_unregistered() -> None:
    broker = BrokerRegistration(1, 5, (Endpoint("PLAINTEXT", "localhost", 1),))
    image = MetadataImage().apply([BrokerRegistered(broker)])
    assert image.live_brokers() == [broker]
    assert broker.endpoint("PLAINTEXT") == broker.endpoints[0]
    assert broker.endpoint("SSL") is None
    fenced = image.apply([BrokerFenced(1)])
    assert fenced.live_brokers() == []
    assert fenced.apply([BrokerUnregistered(1)]).brokers == {}


def test_a_resource_without_values_is_removed() -> None:
    image = MetadataImage().apply([ConfigChanged(CLUSTER_DEFAULT, "x", "1")])
    assert image.config(CLUSTER_DEFAULT) == {"x": "1"}
    assert image.apply([ConfigChanged(CLUSTER_DEFAULT, "x", None)]).configs == {}


def test_a_feature_at_level_zero_is_removed() -> None:
    image = MetadataImage().apply([FeatureSet("f", 2)])
    assert image.features == {"f": 2}
    assert image.apply([FeatureSet("f", 0)]).features == {}


@pytest.mark.parametrize(
    "record",
    [
        TopicCreated("a.b", B, (ONE,)),
        TopicCreated("other", A, (ONE,)),
        TopicCreated("empty", B, ()),
        TopicDeleted(B),
        PartitionsAdded(B, (ONE,)),
        PartitionChanged(A, 2, ONE),
        PartitionChanged(A, -1, ONE),
    ],
)
def test_a_record_made_for_another_image_is_refused(record: TopicCreated) -> None:
    with pytest.raises(ImageError):
        with_topic().apply([record])


def test_security_records_add_replace_and_remove() -> None:
    image = MetadataImage().apply(SECURITY_RECORDS)
    assert list(image.acls) == [TOPIC_ACL, PREFIX_ACL]
    assert image.scram_credentials[("alice", ScramMechanism.SCRAM_SHA_512)] == CREDENTIAL
    assert image.quotas[ALICE] == {"producer_byte_rate": 1024.5}
    assert image.delegation_tokens == {TOKEN.token_id: TOKEN}
    renewed = replace(TOKEN, expiry_ms=TOKEN.expiry_ms + 1)
    later = image.apply(
        [
            ClientQuotaChanged(ALICE, "consumer_byte_rate", 1.0),
            DelegationTokenChanged(renewed),
            ScramCredentialChanged(
                "alice", ScramMechanism.SCRAM_SHA_512, replace(CREDENTIAL, iterations=8192)
            ),
        ]
    )
    assert later.quotas[ALICE] == {"producer_byte_rate": 1024.5, "consumer_byte_rate": 1.0}
    assert later.delegation_tokens == {TOKEN.token_id: renewed}
    assert later.scram_credentials["alice", ScramMechanism.SCRAM_SHA_512].iterations == 8192
    removed = image.apply(SECURITY_REMOVALS)
    assert list(removed.acls) == [PREFIX_ACL]
    assert list(removed.scram_credentials) == [("alice", ScramMechanism.SCRAM_SHA_512)]
    assert ALICE not in removed.quotas
    assert removed.delegation_tokens == {}
    assert image == MetadataImage().apply(SECURITY_RECORDS), "an image never changes"


def test_creating_an_acl_again_or_removing_what_does_not_exist_changes_nothing() -> None:
    image = MetadataImage().apply([AclCreated(TOPIC_ACL)])
    again = image.apply([AclCreated(TOPIC_ACL), AclDeleted(PREFIX_ACL), *SECURITY_REMOVALS[1:]])
    assert again.at_version(image.version) == image


def test_internal_topics_are_known_by_name() -> None:
    image = MetadataImage().apply([TopicCreated("__consumer_offsets", A, (ONE,))])
    assert image.topics["__consumer_offsets"].internal
    assert not with_topic().topics["a.b"].internal
