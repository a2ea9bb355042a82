"""Metadata records as bytes, as the controller sends them to the other brokers.

A record is one type byte followed by a `Struct`. Unknown types are refused: a broker that does not
understand its controller must not guess.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headrace.cluster.metadata_records import (
    AclCreated,
    AclDeleted,
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    DelegationTokenChanged,
    DelegationTokenRemoved,
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
from headrace.cluster.resources import ConfigResource, ConfigResourceType
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    boolean,
    bytes_,
    float64,
    int8,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
)
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.principal import parse_principal
from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken

VERSION: Final = 0


class UnknownRecord(Exception):
    """The controller is newer than this broker: upgrade the broker."""


class _Endpoint(Struct, versions=(0, 0), flexible_since=0):
    listener: string = ""
    host: string = ""
    port: int32 = 0
    security_protocol: string = ""


class _Broker(Struct, versions=(0, 0), flexible_since=0):
    broker_id: int32 = 0
    epoch: int64 = 0
    endpoints: list[_Endpoint] = field(default=[])
    rack: nullable_string = None
    incarnation_id: uuid = bytes(16)
    fenced: boolean = False
    leaving: boolean = False
    directories: list[string] = field(tag=0, default=[])
    metadata_level: int32 = field(tag=1, default=0)


class _Partition(Struct, versions=(0, 0), flexible_since=0):
    replicas: list[int32] = field(default=[])
    isr: list[int32] = field(default=[])
    leader: int32 = 0
    leader_epoch: int32 = 0
    partition_epoch: int32 = 0
    eligible_leaders: list[int32] = field(default=[])
    adding: list[int32] = field(default=[])
    removing: list[int32] = field(default=[])


class _TopicPartitions(Struct, versions=(0, 0), flexible_since=0):
    name: string = ""
    topic_id: uuid = bytes(16)
    partitions: list[_Partition] = field(default=[])


class _Change(Struct, versions=(0, 0), flexible_since=0):
    topic_id: uuid = bytes(16)
    index: int32 = 0
    partition: _Partition = field(default=_Partition())


class _Config(Struct, versions=(0, 0), flexible_since=0):
    resource_type: int8 = 0
    resource_name: string = ""
    name: string = ""
    value: nullable_string = None


class _NamedNumber(Struct, versions=(0, 0), flexible_since=0):
    name: string = ""
    number: int64 = 0


class _Elected(Struct, versions=(0, 0), flexible_since=0):
    controller_id: int32 = 0
    controller_epoch: int32 = 0


class _Deletion(Struct, versions=(0, 0), flexible_since=0):
    topic_id: uuid = bytes(16)
    inferred: boolean = field(tag=0, default=False)


class _Acl(Struct, versions=(0, 0), flexible_since=0):
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 0
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission: int8 = 0


class _ScramCredential(Struct, versions=(0, 0), flexible_since=0):
    user: string = ""
    mechanism: int8 = 0
    removed: boolean = False
    salt: bytes_ = b""
    stored_key: bytes_ = b""
    server_key: bytes_ = b""
    iterations: int32 = 0


class _QuotaEntityPart(Struct, versions=(0, 0), flexible_since=0):
    type: string = ""
    name: nullable_string = None


class _ClientQuota(Struct, versions=(0, 0), flexible_since=0):
    entity: list[_QuotaEntityPart] = field(default=[])
    key: string = ""
    removed: boolean = False
    value: float64 = 0.0


class _DelegationToken(Struct, versions=(0, 0), flexible_since=0):
    token_id: string = ""
    owner: string = ""
    requester: string = ""
    renewers: list[string] = field(default=[])
    issue_ms: int64 = 0
    expiry_ms: int64 = 0
    max_ms: int64 = 0


def _pack_partition(partition: Partition) -> _Partition:
    return _Partition(
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        eligible_leaders=list(partition.eligible_leaders),
        adding=list(partition.adding),
        removing=list(partition.removing),
    )


def _unpack_partition(stored: _Partition) -> Partition:
    return Partition(
        tuple(stored.replicas),
        tuple(stored.isr),
        stored.leader,
        stored.leader_epoch,
        stored.partition_epoch,
        tuple(stored.eligible_leaders),
        tuple(stored.adding),
        tuple(stored.removing),
    )


def _pack_broker(broker: BrokerRegistration) -> _Broker:
    return _Broker(
        broker_id=broker.broker_id,
        epoch=broker.epoch,
        endpoints=[
            _Endpoint(
                listener=each.listener,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in broker.endpoints
        ],
        rack=broker.rack,
        incarnation_id=broker.incarnation_id,
        fenced=broker.fenced,
        leaving=broker.leaving,
        directories=list(broker.directories),
        metadata_level=broker.metadata_level,
    )


def _unpack_broker(stored: _Broker) -> BrokerRegistration:
    endpoints = tuple(
        Endpoint(each.listener, each.host, each.port, each.security_protocol)
        for each in stored.endpoints
    )
    return BrokerRegistration(
        stored.broker_id,
        stored.epoch,
        endpoints,
        stored.rack,
        stored.incarnation_id,
        stored.fenced,
        stored.leaving,
        tuple(stored.directories),
        stored.metadata_level,
    )


def _pack_topic(record: TopicCreated) -> _TopicPartitions:
    # Equal partitions of a topic share one object here too.
    seen: dict[Partition, _Partition] = {}
    return _TopicPartitions(
        name=record.name,
        topic_id=record.topic_id,
        partitions=[seen.setdefault(each, _pack_partition(each)) for each in record.partitions],
    )


def _pack_config(record: ConfigChanged) -> _Config:
    return _Config(
        resource_type=int(record.resource.type),
        resource_name=record.resource.name,
        name=record.name,
        value=record.value,
    )


def _unpack_config(stored: _Config) -> ConfigChanged:
    resource = ConfigResource(ConfigResourceType(stored.resource_type), stored.resource_name)
    return ConfigChanged(resource, stored.name, stored.value)


def _pack_acl(acl: Acl) -> _Acl:
    return _Acl(
        resource_type=acl.pattern.type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
    )


def _unpack_acl(stored: _Acl) -> Acl:
    pattern = ResourcePattern(
        AclResourceType(stored.resource_type),
        stored.resource_name,
        PatternType(stored.pattern_type),
    )
    return Acl(
        pattern,
        stored.principal,
        stored.host,
        AclOperation(stored.operation),
        AclPermission(stored.permission),
    )


def _pack_scram_credential(record: ScramCredentialChanged) -> _ScramCredential:
    packed = _ScramCredential(user=record.user, mechanism=record.mechanism)
    credential = record.credential
    if credential is None:
        packed.removed = True
    else:
        packed.salt = credential.salt
        packed.stored_key = credential.stored_key
        packed.server_key = credential.server_key
        packed.iterations = credential.iterations
    return packed


def _unpack_scram_credential(stored: _ScramCredential) -> ScramCredentialChanged:
    credential = ScramCredential(
        bytes(stored.salt), bytes(stored.stored_key), bytes(stored.server_key), stored.iterations
    )
    return ScramCredentialChanged(
        stored.user, ScramMechanism(stored.mechanism), None if stored.removed else credential
    )


def _pack_quota(record: ClientQuotaChanged) -> _ClientQuota:
    return _ClientQuota(
        entity=[_QuotaEntityPart(type=type_, name=name) for type_, name in record.entity.parts],
        key=record.key,
        removed=record.value is None,
        value=record.value or 0.0,
    )


def _unpack_quota(stored: _ClientQuota) -> ClientQuotaChanged:
    entity = QuotaEntity(tuple((part.type, part.name) for part in stored.entity))
    return ClientQuotaChanged(entity, stored.key, None if stored.removed else stored.value)


def _pack_token(token: DelegationToken) -> _DelegationToken:
    return _DelegationToken(
        token_id=token.token_id,
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=[str(each) for each in token.renewers],
        issue_ms=token.issue_ms,
        expiry_ms=token.expiry_ms,
        max_ms=token.max_ms,
    )


def _unpack_token(stored: _DelegationToken) -> DelegationToken:
    return DelegationToken(
        stored.token_id,
        parse_principal(stored.owner),
        parse_principal(stored.requester),
        tuple(map(parse_principal, stored.renewers)),
        stored.issue_ms,
        stored.expiry_ms,
        stored.max_ms,
    )


@dataclass(frozen=True, slots=True)
class _RecordCodec:
    """The codec of one record type."""

    number: int
    record: type
    struct: type[Struct]
    pack: Callable[[Any], Struct]
    unpack: Callable[[Any], MetadataRecord]


def _unpack_number(
    kind: Callable[[int], MetadataRecord],
) -> Callable[[_NamedNumber], MetadataRecord]:
    return lambda stored: kind(stored.number)


_CODECS: Final = (
    _RecordCodec(
        0,
        ClusterNamed,
        _NamedNumber,
        lambda r: _NamedNumber(name=r.cluster_id),
        lambda s: ClusterNamed(s.name),
    ),
    _RecordCodec(
        1,
        ControllerElected,
        _Elected,
        lambda r: _Elected(controller_id=r.controller_id, controller_epoch=r.controller_epoch),
        lambda s: ControllerElected(s.controller_id, s.controller_epoch),
    ),
    _RecordCodec(
        2,
        BrokerRegistered,
        _Broker,
        lambda r: _pack_broker(r.broker),
        lambda s: BrokerRegistered(_unpack_broker(s)),
    ),
    _RecordCodec(
        3,
        BrokerFenced,
        _NamedNumber,
        # Earlier releases ignore the name.
        lambda r: _NamedNumber(name=r.reason, number=r.broker_id),
        lambda s: BrokerFenced(s.number, s.name),
    ),
    _RecordCodec(
        4,
        BrokerLeaving,
        _NamedNumber,
        lambda r: _NamedNumber(number=r.broker_id),
        _unpack_number(BrokerLeaving),
    ),
    _RecordCodec(
        5,
        BrokerUnregistered,
        _NamedNumber,
        lambda r: _NamedNumber(number=r.broker_id),
        _unpack_number(BrokerUnregistered),
    ),
    _RecordCodec(
        6,
        TopicCreated,
        _TopicPartitions,
        _pack_topic,
        lambda s: TopicCreated(s.name, s.topic_id, tuple(map(_unpack_partition, s.partitions))),
    ),
    _RecordCodec(
        7,
        PartitionsAdded,
        _TopicPartitions,
        lambda r: _TopicPartitions(
            topic_id=r.topic_id, partitions=list(map(_pack_partition, r.partitions))
        ),
        lambda s: PartitionsAdded(s.topic_id, tuple(map(_unpack_partition, s.partitions))),
    ),
    _RecordCodec(
        8,
        PartitionChanged,
        _Change,
        lambda r: _Change(
            topic_id=r.topic_id, index=r.index, partition=_pack_partition(r.partition)
        ),
        lambda s: PartitionChanged(s.topic_id, s.index, _unpack_partition(s.partition)),
    ),
    _RecordCodec(
        9,
        LeaderRestarted,
        _NamedNumber,
        lambda r: _NamedNumber(number=r.broker_id),
        _unpack_number(LeaderRestarted),
    ),
    _RecordCodec(
        10,
        TopicDeleted,
        _Deletion,
        lambda r: _Deletion(topic_id=r.topic_id, inferred=r.inferred),
        lambda s: TopicDeleted(s.topic_id, s.inferred),
    ),
    _RecordCodec(11, ConfigChanged, _Config, _pack_config, _unpack_config),
    _RecordCodec(
        12,
        FeatureSet,
        _NamedNumber,
        lambda r: _NamedNumber(name=r.name, number=r.level),
        lambda s: FeatureSet(s.name, s.number),
    ),
    _RecordCodec(
        13,
        ProducerIdsReserved,
        _NamedNumber,
        lambda r: _NamedNumber(number=r.next_producer_id),
        _unpack_number(ProducerIdsReserved),
    ),
    _RecordCodec(
        14, AclCreated, _Acl, lambda r: _pack_acl(r.acl), lambda s: AclCreated(_unpack_acl(s))
    ),
    _RecordCodec(
        15, AclDeleted, _Acl, lambda r: _pack_acl(r.acl), lambda s: AclDeleted(_unpack_acl(s))
    ),
    _RecordCodec(
        16,
        ScramCredentialChanged,
        _ScramCredential,
        _pack_scram_credential,
        _unpack_scram_credential,
    ),
    _RecordCodec(17, ClientQuotaChanged, _ClientQuota, _pack_quota, _unpack_quota),
    _RecordCodec(
        18,
        DelegationTokenChanged,
        _DelegationToken,
        lambda r: _pack_token(r.token),
        lambda s: DelegationTokenChanged(_unpack_token(s)),
    ),
    _RecordCodec(
        19,
        DelegationTokenRemoved,
        _NamedNumber,
        lambda r: _NamedNumber(name=r.token_id),
        lambda s: DelegationTokenRemoved(s.name),
    ),
)
_BY_RECORD: Final = {codec.record: codec for codec in _CODECS}
_BY_NUMBER: Final = {codec.number: codec for codec in _CODECS}


def encode(record: MetadataRecord) -> bytes:
    codec = _BY_RECORD[type(record)]
    return bytes((codec.number,)) + codec.pack(record).encode(VERSION)


def decode(data: bytes) -> MetadataRecord:
    """The record; raises `UnknownRecord`, or `ProtocolError` for malformed bytes."""
    codec = _BY_NUMBER.get(data[0]) if data else None
    if codec is None:
        raise UnknownRecord(
            f"unknown metadata record type {data[:1].hex() or '(empty record)'}: the controller "
            "is newer than this broker; upgrade the broker"
        )
    return codec.unpack(codec.struct.decode(data[1:], VERSION))
