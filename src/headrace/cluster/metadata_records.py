"""Changes of the cluster's metadata. The image changes only by applying these records.

A record states the new fact, never how it was decided. So a store, an image and another broker that
apply the same records agree. Most are named tuples: defining one at start takes a fifth of the time
of a data class.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headrace.cluster.resources import ConfigResource
from headrace.cluster.topology import BrokerRegistration, Partition
from headrace.security.authorization.acl import Acl
from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken


class ClusterNamed(NamedTuple):
    """The cluster has this id: the first record of every store."""

    cluster_id: str


class ControllerElected(NamedTuple):
    """This broker is now the controller; the epoch fences every earlier controller."""

    controller_id: int
    controller_epoch: int


class BrokerRegistered(NamedTuple):
    """A broker joined, returned, or changed its addresses."""

    broker: BrokerRegistration


class FencedReason(StrEnum):
    """How the controller noticed that a broker is gone."""

    SESSION_ENDED = "session"
    PROCESS_DIED = "process"
    RESTARTED = "restart"


class BrokerFenced(NamedTuple):
    """A broker is gone: it stays known but gets no leadership and no new replicas.

    `reason` is for the logs: a `FencedReason`, or empty if a broker of an earlier release decided.
    """

    broker_id: int
    reason: str = ""


class BrokerLeaving(NamedTuple):
    """A broker has begun its controlled shutdown: it gets no further leadership."""

    broker_id: int


class BrokerUnregistered(NamedTuple):
    """A broker was removed permanently."""

    broker_id: int


class TopicCreated(NamedTuple):
    """A topic with all its partitions, in the order of their indexes."""

    name: str
    topic_id: bytes
    partitions: tuple[Partition, ...]


class PartitionsAdded(NamedTuple):
    """Partitions that follow the topic's last one."""

    topic_id: bytes
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """A partition's new state: leader, epochs, in-sync replicas."""

    topic_id: bytes
    index: int
    partition: Partition


class LeaderRestarted(NamedTuple):
    """A leader's process restarted: each partition that it leads enters a new leader epoch.

    One record covers thousands of partitions, so a restart costs one SQL statement.
    """

    broker_id: int


class TopicDeleted(NamedTuple):
    """A topic was deleted, with its partitions and its configuration.

    `inferred` means that no deletion was seen: the topic is missing from the stored metadata.
    """

    topic_id: bytes
    inferred: bool = False


class ConfigChanged(NamedTuple):
    """A config of a resource has this value; None removes it."""

    resource: ConfigResource
    name: str
    value: str | None


class FeatureSet(NamedTuple):
    """A feature is finalized at this level; 0 removes it."""

    name: str
    level: int


class ProducerIdsReserved(NamedTuple):
    """All producer ids below this one are allocated."""

    next_producer_id: int


class AclCreated(NamedTuple):
    """An ACL is in force. Adding one that exists changes nothing."""

    acl: Acl


class AclDeleted(NamedTuple):
    """An ACL is no longer in force."""

    acl: Acl


class ScramCredentialChanged(NamedTuple):
    """A user's credential for one mechanism; None removes it."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


class ClientQuotaChanged(NamedTuple):
    """One limit of a quota entity; None removes it."""

    entity: QuotaEntity
    key: str
    value: float | None


class DelegationTokenChanged(NamedTuple):
    """A token was created or renewed."""

    token: DelegationToken


class DelegationTokenRemoved(NamedTuple):
    """A token was expired by a request, or its time is over."""

    token_id: str


MetadataRecord = (
    ClusterNamed
    | ControllerElected
    | BrokerRegistered
    | BrokerFenced
    | BrokerLeaving
    | BrokerUnregistered
    | TopicCreated
    | PartitionsAdded
    | PartitionChanged
    | LeaderRestarted
    | TopicDeleted
    | ConfigChanged
    | FeatureSet
    | ProducerIdsReserved
    | AclCreated
    | AclDeleted
    | ScramCredentialChanged
    | ClientQuotaChanged
    | DelegationTokenChanged
    | DelegationTokenRemoved
)
