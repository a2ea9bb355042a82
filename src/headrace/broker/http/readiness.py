"""Whether the broker is ready, and why not.

Ready means: clients can use this broker now. A broker stays ready while ZooKeeper is unreachable,
because its leaders serve on; if readiness failed then, a service manager would take all brokers of
the cluster out of service at once. The same holds for one of several log directories, and for
coordinators that are loading: their clients retry. These are reported, and `required` is false.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Check(NamedTuple):
    """One condition of readiness."""

    name: str
    ok: bool
    detail: str
    required: bool = True


class Readiness(NamedTuple):
    """All conditions together."""

    checks: tuple[Check, ...]

    @property
    def is_ready(self) -> bool:
        return all(check.ok for check in self.checks if check.required)

    @property
    def reasons(self) -> list[str]:
        """What is not in order, for people; also if the broker is ready all the same."""
        return [check.detail for check in self.checks if not check.ok]

    def as_json(self, node_id: int) -> dict[str, object]:
        return {
            "status": "ready" if self.is_ready else "not ready",
            "broker": node_id,
            "reasons": self.reasons,
            "checks": [check._asdict() for check in self.checks],
        }


class BrokerCondition(NamedTuple):
    """What readiness depends on."""

    is_started: bool
    is_stopping: bool
    is_member: bool
    is_registered: bool
    is_fenced: bool
    has_store: bool
    offline_dirs: tuple[str, ...]
    log_dirs: int
    loading: tuple[str, ...]
    """The partitions of internal topics whose coordinators are loading."""


def check_readiness(condition: BrokerCondition) -> Readiness:
    """Decides with reasons; the log directories count once the broker has opened them."""
    return Readiness(tuple(_checks(condition)))


def _checks(condition: BrokerCondition) -> Iterable[Check]:
    started, stopping = condition.is_started, condition.is_stopping
    yield Check("started", started, "started" if started else "the broker is starting")
    yield Check("not_stopping", not stopping, "the broker is stopping" if stopping else "running")
    if condition.is_member:
        yield _registration(condition)
        connected = condition.has_store
        yield Check(
            "zookeeper",
            connected,
            "connected"
            if connected
            else "ZooKeeper is unreachable: leaders serve on, but nothing can be changed",
            required=False,
        )
    yield from _directories(condition)
    loading = condition.loading
    yield Check(
        "coordinators",
        not loading,
        f"coordinators are loading: {_shown(loading)}" if loading else "loaded",
        required=False,
    )


def _registration(condition: BrokerCondition) -> Check:
    if not condition.is_registered:
        return Check("registered", False, "the broker is not registered in the cluster")
    if condition.is_fenced:
        return Check("registered", False, "the broker is fenced: it leads no partition")
    return Check("registered", True, "registered")


def _directories(condition: BrokerCondition) -> Iterable[Check]:
    offline = condition.offline_dirs
    if not condition.log_dirs:
        return
    if not offline:
        yield Check("log_dirs", True, "all log directories are online")
        return
    yield Check(
        "log_dirs",
        False,
        f"{len(offline)} of {condition.log_dirs} log directories are offline: {_shown(offline)}",
        required=len(offline) == condition.log_dirs,
    )


def _shown(names: tuple[str, ...], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
