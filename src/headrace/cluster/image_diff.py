"""The difference between two images, as records. Pure.

A broker needs it when it gets a whole image in place of an older one: from a new controller, or
after a long absence. The cost depends on the difference; identical objects are not compared.
"""

from collections.abc import Iterator

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    AclCreated,
    AclDeleted,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    DelegationTokenChanged,
    DelegationTokenRemoved,
    FeatureSet,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    ScramCredentialChanged,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ConfigResourceType
from headrace.cluster.topology import Topic


def records_between(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    """The records with which `before.apply(records)` equals `after`, except for its version."""
    if before.cluster_id != after.cluster_id:
        yield ClusterNamed(after.cluster_id)
    controller = (after.controller_id, after.controller_epoch)
    if (before.controller_id, before.controller_epoch) != controller:
        yield ControllerElected(*controller)
    if before.next_producer_id != after.next_producer_id:
        yield ProducerIdsReserved(after.next_producer_id)
    yield from _changed_features(before, after)
    yield from _changed_brokers(before, after)
    yield from _changed_topics(before, after)
    yield from _changed_configs(before, after)
    yield from _changed_acls(before, after)
    yield from _changed_scram_credentials(before, after)
    yield from _changed_quotas(before, after)
    yield from _changed_delegation_tokens(before, after)


def _changed_features(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for name in {**before.features, **after.features}:
        level = after.features.get(name, 0)
        if before.features.get(name, 0) != level:
            yield FeatureSet(name, level)


def _changed_brokers(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for id_ in before.brokers:
        if id_ not in after.brokers:
            yield BrokerUnregistered(id_)
    for id_, broker in after.brokers.items():
        if before.brokers.get(id_) != broker:
            yield BrokerRegistered(broker)


def _changed_topics(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    if before.topics is after.topics:
        return
    for topic_id in before.topics_by_id:
        if topic_id not in after.topics_by_id:
            yield TopicDeleted(topic_id, inferred=True)
    for topic in after.topics.values():
        known = before.topics_by_id.get(topic.topic_id)
        if known is None:
            yield TopicCreated(*topic)
        elif known is not topic:
            yield from _changed_partitions(known, topic)


def _changed_partitions(before: Topic, after: Topic) -> Iterator[MetadataRecord]:
    have = len(before.partitions)
    for index, partition in enumerate(after.partitions[:have]):
        if before.partitions[index] != partition:
            yield PartitionChanged(after.topic_id, index, partition)
    if len(after.partitions) > have:
        yield PartitionsAdded(after.topic_id, after.partitions[have:])


def _changed_configs(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    if before.configs is after.configs:
        return
    for resource in {**before.configs, **after.configs}:
        old, new = before.config(resource), after.config(resource)
        if resource.type is ConfigResourceType.TOPIC and _topic_was_replaced(
            before, after, resource.name
        ):
            old = {}  # deleted with the topic that had this name
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                yield ConfigChanged(resource, name, new.get(name))


def _changed_acls(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    if before.acls is after.acls:
        return
    for acl in before.acls:
        if acl not in after.acls:
            yield AclDeleted(acl)
    for acl in after.acls:
        if acl not in before.acls:
            yield AclCreated(acl)


def _changed_scram_credentials(
    before: MetadataImage, after: MetadataImage
) -> Iterator[MetadataRecord]:
    old, new = before.scram_credentials, after.scram_credentials
    if old is new:
        return
    for user, mechanism in {**old, **new}:
        credential = new.get((user, mechanism))
        if old.get((user, mechanism)) != credential:
            yield ScramCredentialChanged(user, mechanism, credential)


def _changed_quotas(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    if before.quotas is after.quotas:
        return
    for entity in {**before.quotas, **after.quotas}:
        old, new = before.quotas.get(entity, {}), after.quotas.get(entity, {})
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                yield ClientQuotaChanged(entity, key, new.get(key))


def _changed_delegation_tokens(
    before: MetadataImage, after: MetadataImage
) -> Iterator[MetadataRecord]:
    old, new = before.delegation_tokens, after.delegation_tokens
    if old is new:
        return
    for token_id in old:
        if token_id not in new:
            yield DelegationTokenRemoved(token_id)
    for token_id, token in new.items():
        if old.get(token_id) != token:
            yield DelegationTokenChanged(token)


def _topic_was_replaced(before: MetadataImage, after: MetadataImage, name: str) -> bool:
    old, new = before.topics.get(name), after.topics.get(name)
    return old is not None and (new is None or new.topic_id != old.topic_id)
