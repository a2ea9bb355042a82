"""Whole brokers in interleaved pairs of runs: the rate and the broker's CPU time per message."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench import artifacts
from bench.authorizer.brokers import OtherCheckout, WithAuthorizer, WithQuotas
from bench.load_generator import LoadGenerator, Option
from bench.peers.headrace import Headrace
from bench.peers.peer import Peer
from bench.warmup import warm_up
from bench.workload import Contestant, Workload
from bench.workloads.catalogue import ACKS_ONE, LARGE, PIPELINED, SMALL
from bench.workloads.commits import Commits
from bench.workloads.consume import Consume
from bench.workloads.memory import METRICS, MemoryUse
from bench.workloads.meter import throughput_metrics
from bench.workloads.produce import Produce

BROKERS: Final = ("authorizer", "none", "quotas", "baseline")
TOLERANCE: Final = 0.03
"""A broker with an authorizer may be slower by this much than one without."""
# Every topic and group of a comparison begins with one of these.
OTHER_NAMES: Final = ("warm-up-", "memory-")


def workloads(scale: float) -> list[Workload]:
    """`scale` reduces the message counts for a quick run."""

    def many(count: int) -> int:
        return max(1000, int(count * scale))

    small, large = many(3_000_000), many(600_000)
    rates = throughput_metrics(rate_goal=1 - TOLERANCE, cpu_goal=1 + TOLERANCE)
    one_record: Mapping[str, Option] = {
        "acks": "1",
        "linger_ms": 0,
        "batch_messages": 1,
        "in_flight": PIPELINED,
    }
    return [
        Produce("single", "One record per request", many(100_000), SMALL, rates, one_record),
        Produce("produce-100b", "Produce 100 B", small, SMALL, rates, ACKS_ONE),
        Produce("produce-1kb", "Produce 1 kB", large, LARGE, rates, ACKS_ONE),
        Consume("consume-100b", "Consume 100 B", small, SMALL, rates),
        Commits(
            "commits",
            "Offset commits, 50 groups",
            joined=True,
            duration_ms=max(1000, int(5000 * scale)),
            metrics=rates,
        ),
        MemoryUse(small, large, metrics=tuple(replace(each, goal=None) for each in METRICS)),
    ]


@dataclass(frozen=True, slots=True)
class Setup:
    """What the brokers of a comparison are made of."""

    load: LoadGenerator
    acl_count: int
    baseline: Path | None

    def build(self, broker: str, home: Path) -> Peer:
        if broker == "authorizer":
            names = (*OTHER_NAMES, *(workload.name for workload in workloads(1)))
            return WithAuthorizer(home, self.load, acl_count=self.acl_count, names=names)
        if broker == "quotas":
            return WithQuotas(home, self.load)
        if broker == "baseline":
            assert self.baseline is not None
            return OtherCheckout(home, self.load, self.baseline)
        return Headrace(home, self.load)


@contextmanager
def contest(
    brokers: tuple[str, str], work: Path, *, acl_count: int, baseline: Path | None
) -> Iterator[tuple[Contestant, Contestant]]:
    """Both contestants in a directory below `work`, which is removed afterwards."""
    setup = Setup(LoadGenerator(artifacts.load_generator()), acl_count, baseline)
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=work))
    first, second = (
        Contestant(broker, home / str(index), partial(setup.build, broker), warm_up)
        for index, broker in enumerate(brokers)
    )
    try:
        yield first, second
    finally:
        first.close()
        second.close()
        shutil.rmtree(home, ignore_errors=True)
