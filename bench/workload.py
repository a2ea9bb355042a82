"""The definition of a workload: named figures, and one run against one contestant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from bench.peers.peer import Peer

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio to the other contestant, or on the first contestant's own value.

    It is a floor where higher is better and a ceiling where lower is.
    """

    of: Literal["ratio", "value"]
    bound: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a workload. `headline` puts it into the chart."""

    key: str
    title: str
    unit: str
    better: Better
    goal: Goal | None = None
    headline: bool = False


Sample = Mapping[str, float]


class Contestant:
    """A kind of broker in the comparison: one warm instance, and fresh ones on demand."""

    def __init__(
        self, name: str, home: Path, build: Callable[[Path], Peer], warm_up: Callable[[Peer], None]
    ) -> None:
        self.name = name
        self._home = home
        self._build = build
        self._warm_up = warm_up
        self._warm: Peer | None = None
        self._count = 0

    def warm(self) -> Peer:
        """The instance that the throughput workloads share: started and warmed up once."""
        if self._warm is None:
            peer = self.fresh()
            try:
                peer.start()
                self._warm_up(peer)
            except BaseException:
                peer.discard()  # a partly warm broker would be measured as a warm one
                raise
            self._warm = peer
        return self._warm

    @property
    def running(self) -> Peer | None:
        """The warm instance if there is one and it runs."""
        return self._warm if self._warm is not None and self._warm.running else None

    def fresh(self) -> Peer:
        """A new instance with an empty data directory, not started. The caller discards it."""
        self._count += 1
        return self._build(self._home / f"{self.name}-{self._count}")

    def close(self) -> None:
        if self._warm is not None:
            self._warm.discard()
            self._warm = None


class Workload(Protocol):
    """`prepare` and `finish` surround all runs against a contestant; neither is timed."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def metrics(self) -> tuple[Metric, ...]: ...
    @property
    def warm_ups(self) -> int: ...

    def prepare(self, contestant: Contestant) -> None: ...
    def run(self, contestant: Contestant) -> Sample: ...
    def finish(self, contestant: Contestant) -> None: ...
