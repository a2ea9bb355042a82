"""The processes that run in the directory of a local cluster, found from outside.

`cluster up` runs in a directory while it holds the lock of it; a broker, while it holds the lock of
its data directory. So brokers are found whether `cluster up` or `broker start` started them.
"""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headrace.cli.cluster.local_cluster import LOCK_FILE, STATE_FILE
from headrace.cli.cluster.lock_holder import holder_of, signal_holder
from headrace.cluster.java_properties import read_properties

BROKER_LOCK: Final = ".lock"
IDENTITY: Final = "meta.properties"
ID_NAMES: Final = ("node.id", "broker.id")


class LockedProcess(NamedTuple):
    """A process, and the lock that it holds while it runs."""

    pid: int
    lock: Path

    @property
    def runs(self) -> bool:
        return holder_of(self.lock) == self.pid

    def ask_to_stop(self) -> None:
        """Sends SIGTERM, unless the process has ended; never to another one with its pid."""
        signal_holder(self.lock, self.pid, signal.SIGTERM)
        signal_holder(self.lock, self.pid, signal.SIGCONT)  # a stopped process handles no SIGTERM


class RunningCluster(NamedTuple):
    """What runs in a cluster's directory."""

    up: LockedProcess | None
    """`cluster up`; None if only brokers run."""
    brokers: dict[int, LockedProcess]
    children: frozenset[int] = frozenset()
    """The brokers that `cluster up` started and stops."""
    stopped: frozenset[int] = frozenset()
    """Brokers that have data in this directory and do not run."""
    elsewhere: Mapping[int, str] = {}
    """Members of the cluster whose data is not in this directory, with their addresses."""


def find_running(folder: Path) -> RunningCluster | None:
    """The processes of the cluster in this directory; None if none runs."""
    pid = holder_of(folder / LOCK_FILE)
    up = None if pid is None else LockedProcess(pid, folder / LOCK_FILE)
    brokers = running_brokers(folder)
    if up is None and not brokers:
        return None
    children, elsewhere = _state_of(folder, up)
    started_here = {id_ for id_, process in brokers.items() if process.pid in children}
    members = {id_: address for id_, address in elsewhere.items() if id_ not in brokers}
    known = {_broker_id(each) for each in folder.glob(f"*/data/{IDENTITY}")} - {None}
    stopped = {id_ for id_ in known if id_ is not None and id_ not in brokers}
    members = {id_: address for id_, address in members.items() if id_ not in stopped}
    return RunningCluster(up, brokers, frozenset(started_here), frozenset(stopped), members)


def running_brokers(folder: Path) -> dict[int, LockedProcess]:
    """The brokers whose data is in `folder`, by id.

    Unlike `find_running`, this does not open the lock of `cluster up`, which may call it: a process
    loses its record locks on a file when it closes any descriptor of that file.
    """
    found = {}
    for identity in sorted(folder.glob(f"*/data/{IDENTITY}")):
        process = _lock_of(identity.parent)
        id_ = _broker_id(identity)
        if process is not None and id_ is not None:
            found[id_] = process
    return found


def _lock_of(data: Path) -> LockedProcess | None:
    pid = holder_of(data / BROKER_LOCK)
    return None if pid is None else LockedProcess(pid, data / BROKER_LOCK)


def _broker_id(identity: Path) -> int | None:
    try:
        found = read_properties(identity.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    number = next((found[name] for name in ID_NAMES if name in found), "")
    return int(number) if number.isdecimal() else None


def _state_of(folder: Path, up: LockedProcess | None) -> tuple[set[int], dict[int, str]]:
    """The pids of the brokers that `cluster up` started, and the members that it did not start.

    The file of a `cluster up` that crashed says nothing about the present.
    """
    try:
        state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set(), {}
    if up is None or state["pid"] != up.pid:
        return set(), {}
    children = {each["pid"] for each in state["brokers"] if each["pid"] is not None}
    joined = {each["id"]: each["address"] for each in state.get("joined", ())}
    return children, joined
