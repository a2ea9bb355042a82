"""Converts a whole image, or the contents of a store, to the records that build it. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    AclCreated,
    BrokerRegistered,
    ClientQuotaChanged,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    DelegationTokenChanged,
    FeatureSet,
    MetadataRecord,
    ProducerIdsReserved,
    ScramCredentialChanged,
    TopicCreated,
)
from headrace.cluster.resources import ConfigResource
from headrace.cluster.topology import BrokerRegistration
from headrace.security.authorization.acl import Acl
from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken


class _Metadata(Protocol):
    """The metadata without topics and configurations."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def controller_id(self) -> int: ...
    @property
    def controller_epoch(self) -> int: ...
    @property
    def next_producer_id(self) -> int: ...
    @property
    def features(self) -> Mapping[str, int]: ...
    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]: ...
    @property
    def acls(self) -> Mapping[Acl, None]: ...
    @property
    def scram_credentials(self) -> Mapping[tuple[str, ScramMechanism], ScramCredential]: ...
    @property
    def quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]: ...
    @property
    def delegation_tokens(self) -> Mapping[str, DelegationToken]: ...


def records_of(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Records that build the image from an empty one, except for its version."""
    topics = (TopicCreated(*topic) for topic in image.topics.values())
    return build_records(image, topics, image.configs)


def build_records(
    metadata: _Metadata,
    topics: Iterable[TopicCreated],
    configs: Mapping[ConfigResource, Mapping[str, str]],
) -> Iterator[MetadataRecord]:
    """Records that build an image from an empty one: topics before their configurations."""
    yield ClusterNamed(metadata.cluster_id)
    yield ControllerElected(metadata.controller_id, metadata.controller_epoch)
    yield ProducerIdsReserved(metadata.next_producer_id)
    for name, level in metadata.features.items():
        yield FeatureSet(name, level)
    for broker in metadata.brokers.values():
        yield BrokerRegistered(broker)
    yield from topics
    for resource, values in configs.items():
        for name, value in values.items():
            yield ConfigChanged(resource, name, value)
    for acl in metadata.acls:
        yield AclCreated(acl)
    for (user, mechanism), credential in metadata.scram_credentials.items():
        yield ScramCredentialChanged(user, mechanism, credential)
    for entity, limits in metadata.quotas.items():
        for key, limit in limits.items():
            yield ClientQuotaChanged(entity, key, limit)
    for token in metadata.delegation_tokens.values():
        yield DelegationTokenChanged(token)
