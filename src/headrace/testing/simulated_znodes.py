"""The tree of znodes of a simulated ZooKeeper: versions, transaction ids, atomic writes, watches.

It refuses the same operations as ZooKeeper, and checks in the same order; the contract tests of the
metadata store compare the two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from headrace.cluster.stores.zookeeper_client import (
    ANY_VERSION,
    CheckVersion,
    Create,
    Delete,
    Op,
    OpFailed,
    Reason,
    SetData,
    Stat,
)

ROOT: Final = "/"

WatchKind = Literal["data", "children"]


@dataclass(slots=True)
class SimulatedZnode:
    """One node. `children` are names, not paths."""

    data: bytes
    czxid: int
    mzxid: int
    version: int = 0
    owner: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.mzxid, self.owner, len(self.children))

    def restore(self, data: bytes, mzxid: int, version: int) -> None:
        self.data, self.mzxid, self.version = data, mzxid, version


class ZnodeTree:
    """The nodes by path, and their watches. `zxid` counts the writes."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, SimulatedZnode] = {ROOT: SimulatedZnode(b"", 0, 0)}
        self._watches: dict[tuple[WatchKind, str], dict[int, Callable[[], None]]] = {}

    def watch(self, kind: WatchKind, path: str, key: int, fire: Callable[[], None]) -> None:
        """Calls `fire` once, at the next change. `key` distinguishes the watches of a path."""
        self._watches.setdefault((kind, path), {})[key] = fire

    def unwatch(self, key: int) -> None:
        for watches in self._watches.values():
            watches.pop(key, None)

    def write(self, ops: Sequence[Op], session_id: int) -> list[Stat | None]:
        """Applies all operations or none; `OpFailed` names the one that failed."""
        zxid = self.zxid + 1
        undo: list[Callable[[], None]] = []
        touched: list[tuple[WatchKind, str]] = []
        try:
            results = [
                self._apply(index, op, session_id, zxid, undo, touched)
                for index, op in enumerate(ops)
            ]
        except OpFailed:
            for restore in reversed(undo):
                restore()
            raise
        self.zxid = zxid
        for watched in touched:
            for fire in self._watches.pop(watched, {}).values():
                fire()
        return results

    def remove_session(self, session_id: int) -> None:
        """Removes the ephemeral nodes of an ended session in one write."""
        owned = [path for path, node in self.nodes.items() if node.owner == session_id]
        if owned:
            self.write([Delete(path) for path in sorted(owned)], session_id)

    def _add(self, path: str, node: SimulatedZnode) -> None:
        self.nodes[path] = node
        self.nodes[parent_of(path)].children.add(name_of(path))

    def _remove(self, path: str) -> None:
        del self.nodes[path]
        self.nodes[parent_of(path)].children.discard(name_of(path))

    def _apply(
        self,
        index: int,
        op: Op,
        session_id: int,
        zxid: int,
        undo: list[Callable[[], None]],
        touched: list[tuple[WatchKind, str]],
    ) -> Stat | None:
        def fail(reason: Reason) -> OpFailed:
            return OpFailed(index, reason, op.path)

        node = self.nodes.get(op.path)
        if isinstance(op, Create):
            parent = self.nodes.get(parent_of(op.path))
            if parent is None or parent.owner:
                raise fail(Reason.MISSING)
            if node is not None:
                raise fail(Reason.EXISTS)
            owner = session_id if op.ephemeral else 0
            self._add(op.path, SimulatedZnode(op.data, zxid, zxid, owner=owner))
            undo.append(partial(self._remove, op.path))
            touched += [("data", op.path), ("children", parent_of(op.path))]
            return None
        if node is None:
            raise fail(Reason.MISSING)
        if op.version not in (ANY_VERSION, node.version):
            raise fail(Reason.VERSION)
        if isinstance(op, Delete) and node.children:
            raise fail(Reason.NOT_EMPTY)
        if isinstance(op, CheckVersion):
            return None
        if isinstance(op, SetData):
            undo.append(partial(node.restore, node.data, node.mzxid, node.version))
            node.data, node.mzxid, node.version = op.data, zxid, node.version + 1
            touched.append(("data", op.path))
            return node.stat()
        self._remove(op.path)
        undo.append(partial(self._add, op.path, node))
        touched += [("data", op.path), ("children", op.path), ("children", parent_of(op.path))]
        return None


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
