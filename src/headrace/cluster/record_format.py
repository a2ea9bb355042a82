"""Metadata records as bytes, for the way from the controller to the other brokers.

A record is one byte that names its type, and a `Struct`. Unknown types are refused: a broker that
does not understand its controller must not guess.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headrace.cluster.records import (
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    LeaderReturned,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ConfigResource, ResourceType
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    boolean,
    int8,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
)

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


class _Partition(Struct, versions=(0, 0), flexible_since=0):
    replicas: list[int32] = field(default=[])
    isr: list[int32] = field(default=[])
    leader: int32 = 0
    leader_epoch: int32 = 0
    partition_epoch: int32 = 0
    eligible_leaders: list[int32] = field(default=[])
    adding: list[int32] = field(default=[])
    removing: list[int32] = field(default=[])


class _Topic(Struct, versions=(0, 0), flexible_since=0):
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


class _Named(Struct, versions=(0, 0), flexible_since=0):
    name: string = ""
    number: int64 = 0


class _Elected(Struct, versions=(0, 0), flexible_since=0):
    controller_id: int32 = 0
    controller_epoch: int32 = 0


class _Deletion(Struct, versions=(0, 0), flexible_since=0):
    topic_id: uuid = bytes(16)
    inferred: boolean = field(tag=0, default=False)


def _of_partition(partition: Partition) -> _Partition:
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


def _to_partition(stored: _Partition) -> Partition:
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


def _of_broker(broker: BrokerRegistration) -> _Broker:
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
    )


def _to_broker(stored: _Broker) -> BrokerRegistration:
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
    )


def _of_topic(record: TopicCreated) -> _Topic:
    # Most partitions of a topic differ; those that do not are one object here, too.
    seen: dict[Partition, _Partition] = {}
    return _Topic(
        name=record.name,
        topic_id=record.topic_id,
        partitions=[seen.setdefault(each, _of_partition(each)) for each in record.partitions],
    )


def _of_config(record: ConfigChanged) -> _Config:
    return _Config(
        resource_type=int(record.resource.type),
        resource_name=record.resource.name,
        name=record.name,
        value=record.value,
    )


def _to_config(stored: _Config) -> ConfigChanged:
    resource = ConfigResource(ResourceType(stored.resource_type), stored.resource_name)
    return ConfigChanged(resource, stored.name, stored.value)


@dataclass(frozen=True, slots=True)
class _Form:
    """How one type of record is written and read."""

    number: int
    record: type
    struct: type[Struct]
    pack: Callable[[Any], Struct]
    unpack: Callable[[Any], MetadataRecord]


def _numbered(kind: Callable[[int], MetadataRecord]) -> Callable[[_Named], MetadataRecord]:
    return lambda stored: kind(stored.number)


_FORMS: Final = (
    _Form(0, ClusterNamed, _Named, lambda r: _Named(name=r.cluster_id),
          lambda s: ClusterNamed(s.name)),
    _Form(1, ControllerElected, _Elected,
          lambda r: _Elected(controller_id=r.controller_id, controller_epoch=r.controller_epoch),
          lambda s: ControllerElected(s.controller_id, s.controller_epoch)),
    _Form(2, BrokerRegistered, _Broker, lambda r: _of_broker(r.broker),
          lambda s: BrokerRegistered(_to_broker(s))),
    _Form(3, BrokerFenced, _Named, lambda r: _Named(number=r.broker_id), _numbered(BrokerFenced)),
    _Form(4, BrokerLeaving, _Named, lambda r: _Named(number=r.broker_id),
          _numbered(BrokerLeaving)),
    _Form(5, BrokerUnregistered, _Named, lambda r: _Named(number=r.broker_id),
          _numbered(BrokerUnregistered)),
    _Form(6, TopicCreated, _Topic, _of_topic,
          lambda s: TopicCreated(s.name, s.topic_id, tuple(map(_to_partition, s.partitions)))),
    _Form(7, PartitionsAdded, _Topic,
          lambda r: _Topic(topic_id=r.topic_id, partitions=list(map(_of_partition, r.partitions))),
          lambda s: PartitionsAdded(s.topic_id, tuple(map(_to_partition, s.partitions)))),
    _Form(8, PartitionChanged, _Change,
          lambda r: _Change(
              topic_id=r.topic_id, index=r.index, partition=_of_partition(r.partition)
          ),
          lambda s: PartitionChanged(s.topic_id, s.index, _to_partition(s.partition))),
    _Form(9, LeaderReturned, _Named, lambda r: _Named(number=r.broker_id),
          _numbered(LeaderReturned)),
    _Form(10, TopicDeleted, _Deletion,
          lambda r: _Deletion(topic_id=r.topic_id, inferred=r.inferred),
          lambda s: TopicDeleted(s.topic_id, s.inferred)),
    _Form(11, ConfigChanged, _Config, _of_config, _to_config),
    _Form(12, FeatureSet, _Named, lambda r: _Named(name=r.name, number=r.level),
          lambda s: FeatureSet(s.name, s.number)),
    _Form(13, ProducerIdsReserved, _Named, lambda r: _Named(number=r.next_producer_id),
          _numbered(ProducerIdsReserved)),
)  # fmt: skip
_BY_RECORD: Final = {form.record: form for form in _FORMS}
_BY_NUMBER: Final = {form.number: form for form in _FORMS}


def encode(record: MetadataRecord) -> bytes:
    form = _BY_RECORD[type(record)]
    return bytes((form.number,)) + form.pack(record).encode(VERSION)


def decode(data: bytes) -> MetadataRecord:
    """Raises `UnknownRecord`, or `ProtocolError` for bytes that are none."""
    form = _BY_NUMBER.get(data[0]) if data else None
    if form is None:
        raise UnknownRecord(f"a metadata record of type {data[:1].hex() or 'none'}")
    return form.unpack(form.struct.decode(data[1:], VERSION))
