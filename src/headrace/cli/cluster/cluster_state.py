"""The state that `cluster up` shows, and the changes between two states. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.cli.cluster.status import Overview

STARTING = "starting"
UP = "up"
FENCED = "fenced"
ELSEWHERE = "up, started elsewhere"
UNKNOWN = "unknown"
STOPPED = "stopped"
DEAD = "dead"


class BrokerView(NamedTuple):
    """One broker: its process, and its state in the cluster."""

    id: int
    address: str
    pid: int | None
    state: str
    ended: str = ""
    """How its process ended; empty while it runs."""
    log: str = ""
    last_lines: tuple[str, ...] = ()
    leads: int = 0
    replicas: int = 0
    out_of_sync: int = 0
    is_child: bool = True
    """Whether this command started it; the others joined the cluster later."""


class ClusterView(NamedTuple):
    """All brokers; `overview` is None while no broker answers."""

    brokers: tuple[BrokerView, ...]
    overview: Overview | None = None
    zookeeper_runs: bool = True

    @property
    def controller(self) -> int | None:
        return None if self.overview is None else self.overview.controller

    @property
    def is_serving(self) -> bool:
        """Whether a broker is up; else `overview` is out of date."""
        return any(broker.state in (UP, ELSEWHERE) for broker in self.brokers)

    @property
    def is_up(self) -> bool:
        """Whether every broker is up and one is the controller."""
        return self.controller is not None and all(
            broker.state in (UP, ELSEWHERE) for broker in self.brokers if broker.is_child
        )


def state_of(*, runs: bool, exit_code: int | None, live: bool, known: bool) -> str:
    """The state of a broker, from its process and from the cluster's metadata."""
    if runs:
        return UP if live else FENCED if known else STARTING
    if live:
        return ELSEWHERE
    if exit_code is None:
        return STARTING
    return STOPPED if exit_code == 0 else DEAD


Event = Mapping[str, object]


def changes(before: ClusterView | None, now: ClusterView) -> Iterator[Event]:
    """The changes between two states, each as an event for one line of output."""
    known = {broker.id: broker for broker in before.brokers} if before is not None else {}
    for broker in now.brokers:
        was = known.get(broker.id)
        if was is not None and (was.state, was.pid) == (broker.state, broker.pid):
            continue
        event: dict[str, object] = {"event": "broker", "broker": broker.id, "state": broker.state}
        if not broker.is_child:
            event["address"] = broker.address
        if broker.pid is not None:
            event["pid"] = broker.pid
        if broker.ended:
            event |= {"ended": broker.ended, "log": broker.log, "lines": list(broker.last_lines)}
        yield event
    if before is not None and before.zookeeper_runs and not now.zookeeper_runs:
        yield {"event": "zookeeper", "state": DEAD}
    if now.controller != (before.controller if before is not None else None):
        yield {"event": "controller", "controller": now.controller}
    health = _health(now)
    if health is not None and health != (_health(before) if before is not None else None):
        yield {"event": "partitions", **health}
    if now.is_up and not (before is not None and before.is_up):
        yield {"event": "up"}


def _health(view: ClusterView) -> dict[str, int] | None:
    if view.overview is None:
        return None
    return {
        "partitions": sum(len(topic.partitions) for topic in view.overview.topics),
        "under_replicated": len(view.overview.under_replicated),
        "without_leader": len(view.overview.without_leader),
    }
