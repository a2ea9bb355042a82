"""Packs the steps of a plan into ZooKeeper writes. Pure.

A write is one `multi` of ZooKeeper, which is atomic: a crash leaves whole steps. ZooKeeper drops a
connection that sends about 1 MB at once, so a plan may need several writes.
"""

from typing import Final

from headrace.cluster.metadata_store import TooLarge
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.znode_planner import TopicChange, WritePlan, WriteStep
from headrace.cluster.stores.zookeeper_client import Create, Op, SetData

WRITE_BYTES: Final = 512 * 1024
"""A write is closed at this size: half of ZooKeeper's default limit (jute.maxbuffer)."""

WRITE_OPS: Final = 1_000
"""A write is closed at this number of operations: a `multi` blocks ZooKeeper's other requests."""

MAX_STEP_BYTES: Final = 1_000_000
"""A larger step cannot be written."""

_OP_OVERHEAD_BYTES: Final = 100  # headers and the ACL of a new znode


def pack_steps(
    plan: WritePlan, *, write_bytes: int = WRITE_BYTES, write_ops: int = WRITE_OPS
) -> list[list[Op]]:
    """Packs the steps into as few writes as possible; raises `TooLarge` if a step does not fit."""
    packer = _Packer(plan, write_bytes, write_ops)
    for step in plan.steps:
        packer.add(step)
    packer.close()
    return packer.writes


class _Packer:
    """Packs steps into writes. A write that changes a topic's document contains it once."""

    def __init__(self, plan: WritePlan, write_bytes: int, write_ops: int) -> None:
        self.writes: list[list[Op]] = []
        self._documents = plan.documents
        self._sizes = {
            topic_id: sum(map(_entry_size, topic.assignments))
            for topic_id, topic in plan.documents.items()
        }
        self._write_bytes = write_bytes
        self._write_ops = write_ops
        self._ops: list[Op] = []
        self._places: dict[bytes, int] = {}  # index of each topic's document in the operations
        self._bytes = 0

    def add(self, step: WriteStep) -> None:
        ops, change = step
        size = sum(map(_op_size, ops))
        document = 0 if change is None else self._resized_document(change)
        if size + document > MAX_STEP_BYTES:
            raise self._too_large(step, size + document)
        new = document if change is not None and change.topic_id not in self._places else 0
        full = len(self._ops) + len(ops) + 1 > self._write_ops
        if self._ops and (full or self._bytes + size + new > self._write_bytes):
            self.close()
            new = document
        if change is not None:
            self._apply_topic_change(change)
        self._ops.extend(ops)
        self._bytes += size + new

    def close(self) -> None:
        for topic_id, place in self._places.items():
            topic = self._documents[topic_id]
            document = znodes.write_topic(topic_id, topic.assignments)
            self._ops[place] = SetData(znode_paths.topic_path(topic.name), document)
        if self._ops:
            self.writes.append(self._ops)
        self._ops, self._places, self._bytes = [], {}, 0

    def _resized_document(self, change: TopicChange) -> int:
        """Updates the size of the topic's document for the change, and returns it."""
        assignments = self._documents[change.topic_id].assignments
        if change.partition < len(assignments):
            self._sizes[change.topic_id] -= _entry_size(assignments[change.partition])
        self._sizes[change.topic_id] += _entry_size(change.assignment)
        return self._sizes[change.topic_id] + 2 * _OP_OVERHEAD_BYTES

    def _apply_topic_change(self, change: TopicChange) -> None:
        topic = self._documents[change.topic_id]
        if change.partition == len(topic.assignments):
            topic.assignments.append(change.assignment)
        else:
            topic.assignments[change.partition] = change.assignment
        if change.topic_id not in self._places:
            self._places[change.topic_id] = len(self._ops)
            self._ops.append(SetData(znode_paths.topic_path(topic.name), b""))  # filled by `close`

    def _too_large(self, step: WriteStep, size: int) -> TooLarge:
        if step.topic is not None:
            path = znode_paths.topic_path(self._documents[step.topic.topic_id].name)
        else:
            path = step.ops[0].path
        is_acl = path.startswith(tuple(znode_paths.ACL_ROOTS.values()))
        remedy = "use prefixed ACLs" if is_acl else "use fewer partitions for the topic"
        return TooLarge(
            f"{path} would need {size} bytes in ZooKeeper, which accepts {MAX_STEP_BYTES} at once: "
            f"{remedy}"
        )


def _op_size(op: Op) -> int:
    data = op.data if isinstance(op, Create | SetData) else b""
    return len(op.path) + len(data) + _OP_OVERHEAD_BYTES


def _entry_size(assignment: znodes.Assignment) -> int:
    """The maximum size of one partition in its topic's document."""
    return sum(12 + sum(len(str(id_)) + 1 for id_ in ids) for ids in assignment if ids)
