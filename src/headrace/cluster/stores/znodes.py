"""The JSON documents in Kafka's znodes. Pure.

Everything that Kafka keeps in ZooKeeper has Kafka's path and format, so that Kafka's tools and
people can read it. Headrace's additions use an own key in those documents (Kafka ignores unknown
keys) or a path below /headrace.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.cluster.metadata_store import CorruptStore, Registration
from headrace.cluster.stores.znode_paths import (
    CLUSTER_ID,
    COMMITS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    FEATURES,
    PRODUCER_IDS,
    broker_path,
    recorded_broker_path,
    topic_path,
)
from headrace.cluster.topology import ZERO_UUID, BrokerRegistration, Endpoint, Partition
from headrace.protocol.types import decode_uuid, encode_uuid

NEW_EPOCH: Final = -1
"""The epochs of a partition without a state; the first state has epoch 0."""

_TOPIC_VERSION: Final = 3
_STATE_VERSION: Final = 1
_REGISTRATION_VERSION: Final = 5
_HEADRACE_KEY: Final = "headrace"

# Partition fields that Kafka's documents have; any other field is stored under Headrace's key.
_ASSIGNMENT_FIELDS: Final = ("replicas", "adding", "removing")
_STATE_FIELDS: Final = ("isr", "leader", "leader_epoch", "partition_epoch", "eligible_leaders")
_MORE_FIELDS: Final = tuple(
    field
    for field in Partition._fields
    if field not in _ASSIGNMENT_FIELDS and field not in _STATE_FIELDS
)


class Assignment(NamedTuple):
    """The replicas of a partition: its entry in the topic's znode."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicDocument(NamedTuple):
    """A topic's znode. `deleted` means that the znodes below it are leftovers to remove."""

    topic_id: bytes
    assignments: Mapping[int, Assignment]
    deleted: bool = False


class ControllerDocument(NamedTuple):
    """The znode of the current controller."""

    controller_id: int
    controller_epoch: int | None


class Commits(NamedTuple):
    """The number of writes by the controller of this epoch. Every write increments it."""

    controller_epoch: int
    commits: int


# -- documents -----------------------------------------------------------------------------------


def write_json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def read_json(path: str, data: bytes) -> dict[str, Any]:
    """The JSON object in a znode; raises `CorruptStore` with the path if there is none."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise CorruptStore(f"ZooKeeper: {path} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise CorruptStore(f"ZooKeeper: {path} is not a JSON object")
    return document


def write_cluster_id(cluster_id: str) -> bytes:
    return write_json({"version": "1", "id": cluster_id})


def read_cluster_id(data: bytes) -> str:
    return str(read_json(CLUSTER_ID, data)["id"])


def write_controller(controller_id: int, controller_epoch: int, wall_ms: int) -> bytes:
    return write_json(
        {
            "version": 2,
            "brokerid": controller_id,
            "timestamp": str(wall_ms),
            "kraftControllerEpoch": -1,
            _HEADRACE_KEY: {"epoch": controller_epoch},
        }
    )


def read_controller(data: bytes) -> ControllerDocument:
    document = read_json(CONTROLLER, data)
    return ControllerDocument(
        int(document["brokerid"]), document.get(_HEADRACE_KEY, {}).get("epoch")
    )


def read_epoch(data: bytes) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise CorruptStore(f"ZooKeeper: {CONTROLLER_EPOCH} is not a number: {data!r}") from error


def write_commits(commits: Commits) -> bytes:
    return write_json({"version": 1, **commits._asdict()})


def read_commits(data: bytes) -> Commits:
    document = read_json(COMMITS, data)
    return Commits(int(document["controller_epoch"]), int(document["commits"]))


def write_features(features: Mapping[str, int]) -> bytes:
    levels = {name: {"max_version_level": level} for name, level in features.items()}
    return write_json({"version": 2, "status": 1, "features": levels})


def read_features(data: bytes) -> dict[str, int]:
    levels = read_json(FEATURES, data)["features"]
    return {name: int(range_["max_version_level"]) for name, range_ in levels.items()}


def write_producer_ids(broker_id: int, first: int, next_id: int) -> bytes:
    return write_json(
        {
            "version": 1,
            "broker": broker_id,
            "block_start": str(first),
            "block_end": str(next_id - 1),
        }
    )


def read_next_producer_id(data: bytes) -> int:
    return int(read_json(PRODUCER_IDS, data)["block_end"]) + 1


def write_config(config: Mapping[str, str]) -> bytes:
    return write_json({"version": 1, "config": config})


def read_config(path: str, data: bytes) -> dict[str, str]:
    return {str(k): str(v) for k, v in read_json(path, data).get("config", {}).items()}


# -- topics --------------------------------------------------------------------------------------


def write_topic(topic_id: bytes, assignments: Iterable[Assignment]) -> bytes:
    """The data of a topic's znode; an assignment's position is the partition's index."""
    replicas: dict[str, Sequence[int]] = {}
    adding: dict[str, Sequence[int]] = {}
    removing: dict[str, Sequence[int]] = {}
    for index, assignment in enumerate(assignments):
        replicas[str(index)] = assignment.replicas
        if assignment.adding:
            adding[str(index)] = assignment.adding
        if assignment.removing:
            removing[str(index)] = assignment.removing
    return write_json(
        {
            "version": _TOPIC_VERSION,
            "topic_id": encode_uuid(topic_id),
            "partitions": replicas,
            "adding_replicas": adding,
            "removing_replicas": removing,
        }
    )


def write_deleted_topic(topic_id: bytes) -> bytes:
    """Marks a deleted topic whose znodes remain: removing a large topic takes several writes."""
    return write_json(
        {
            "version": _TOPIC_VERSION,
            "topic_id": encode_uuid(topic_id),
            "partitions": {},
            "adding_replicas": {},
            "removing_replicas": {},
            _HEADRACE_KEY: {"deleted": True},
        }
    )


def read_topic(name: str, data: bytes) -> TopicDocument:
    document = read_json(topic_path(name), data)
    try:
        topic_id = decode_uuid(document["topic_id"])
        adding = document.get("adding_replicas", {})
        removing = document.get("removing_replicas", {})
        assignments = {
            int(index): Assignment(
                tuple(replicas), tuple(adding.get(index, ())), tuple(removing.get(index, ()))
            )
            for index, replicas in document["partitions"].items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(
            f"ZooKeeper: {topic_path(name)} is not a valid topic: {error!r}"
        ) from error
    return TopicDocument(
        topic_id, assignments, bool(document.get(_HEADRACE_KEY, {}).get("deleted"))
    )


def write_state(partition: Partition, controller_epoch: int) -> bytes:
    """A partition's state. The epoch has its own key because one write may merge changes."""
    document: dict[str, object] = {
        "controller_epoch": controller_epoch,
        "leader": partition.leader,
        "version": _STATE_VERSION,
        "leader_epoch": partition.leader_epoch,
        "isr": partition.isr,
        "partition_epoch": partition.partition_epoch,
    }
    if partition.eligible_leaders:
        document["elr"] = partition.eligible_leaders
    more = {
        field: value
        for field in _MORE_FIELDS
        if (value := getattr(partition, field)) != Partition._field_defaults.get(field)
    }
    if more:
        document[_HEADRACE_KEY] = more
    return write_json(document)


def read_partition(path: str, assignment: Assignment, data: bytes, version: int) -> Partition:
    """The partition of an assignment and a state; `version` is that of the state's znode."""
    document = read_json(path, data)
    try:
        more = {
            field: _lists_to_tuples(value)
            for field, value in document.get(_HEADRACE_KEY, {}).items()
        }
        return Partition(
            replicas=assignment.replicas,
            isr=tuple(document["isr"]),
            leader=int(document["leader"]),
            leader_epoch=int(document["leader_epoch"]),
            partition_epoch=int(document.get("partition_epoch", version)),
            eligible_leaders=tuple(document.get("elr", ())),
            adding=assignment.adding,
            removing=assignment.removing,
            **{field: value for field, value in more.items() if field in _MORE_FIELDS},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(
            f"ZooKeeper: {path} is not a valid partition state: {error!r}"
        ) from error


def new_partition(assignment: Assignment) -> Partition:
    """A partition without a stored state; the controller gives it its first one."""
    return Partition(
        replicas=assignment.replicas,
        isr=(),
        leader=-1,
        leader_epoch=NEW_EPOCH,
        partition_epoch=NEW_EPOCH,
        adding=assignment.adding,
        removing=assignment.removing,
    )


def assignment_of(partition: Partition) -> Assignment:
    return Assignment(partition.replicas, partition.adding, partition.removing)


# -- brokers -------------------------------------------------------------------------------------


def write_registration(
    broker: BrokerRegistration, clean_shutdown_epoch: int | None, storage_id: str, wall_ms: int
) -> bytes:
    """The registration of a live broker, in Kafka's format with Headrace's additions."""
    ours = {
        "incarnation": broker.incarnation_id.hex(),
        "clean_shutdown_epoch": clean_shutdown_epoch,
        "storage": storage_id,
        "directories": broker.directories,
        "metadata_level": broker.metadata_level,
    }
    return write_json({**_broker_document(broker, wall_ms), _HEADRACE_KEY: ours})


def read_registration(broker_id: int, data: bytes, epoch: int) -> Registration:
    path = broker_path(broker_id)
    document = read_json(path, data)
    broker = _read_broker(path, broker_id, document)._replace(epoch=epoch)
    return Registration(broker, document.get(_HEADRACE_KEY, {}).get("clean_shutdown_epoch"))


def storage_id_of(broker_id: int, data: bytes) -> str:
    """The id of a registered broker's data directory; "" if it did not send one."""
    return str(read_json(broker_path(broker_id), data).get(_HEADRACE_KEY, {}).get("storage", ""))


def write_recorded_broker(broker: BrokerRegistration) -> bytes:
    """The controller's record of a broker, live or not."""
    fields = broker._asdict()
    for field in ("broker_id", "endpoints", "rack"):
        del fields[field]
    fields["incarnation_id"] = broker.incarnation_id.hex()
    return write_json({**_broker_document(broker, 0), _HEADRACE_KEY: fields})


def read_recorded_broker(broker_id: int, data: bytes) -> BrokerRegistration:
    path = recorded_broker_path(broker_id)
    document = read_json(path, data)
    fields = {
        field: _lists_to_tuples(value)
        for field, value in document.get(_HEADRACE_KEY, {}).items()
        if field in BrokerRegistration._fields
    }
    fields["incarnation_id"] = bytes.fromhex(fields.get("incarnation_id", ZERO_UUID.hex()))
    return _read_broker(path, broker_id, document)._replace(**fields)


def _broker_document(broker: BrokerRegistration, wall_ms: int) -> dict[str, object]:
    plain = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    document: dict[str, object] = {
        "version": _REGISTRATION_VERSION,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": -1,
        "timestamp": str(wall_ms),
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in broker.endpoints],
        "listener_security_protocol_map": {
            e.listener: e.security_protocol for e in broker.endpoints
        },
        "features": {},
    }
    if broker.rack is not None:
        document["rack"] = broker.rack
    return document


def _read_broker(path: str, broker_id: int, document: Mapping[str, Any]) -> BrokerRegistration:
    try:
        protocols = document.get("listener_security_protocol_map", {})
        endpoints = tuple(_endpoint(text, protocols) for text in document["endpoints"])
        ours = document.get(_HEADRACE_KEY, {})
        incarnation = ours.get("incarnation")
        return BrokerRegistration(
            broker_id,
            epoch=0,
            endpoints=endpoints,
            rack=document.get("rack"),
            incarnation_id=bytes.fromhex(incarnation) if incarnation else ZERO_UUID,
            directories=tuple(ours.get("directories", ())),
            metadata_level=int(ours.get("metadata_level", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"ZooKeeper: {path} is not a valid broker: {error!r}") from error


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return Endpoint(listener, host, int(port), protocols.get(listener, listener))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _lists_to_tuples(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    return tuple(map(_lists_to_tuples, value)) if isinstance(value, list) else value
