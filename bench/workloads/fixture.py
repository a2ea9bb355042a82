"""The cost of a broker in a test suite: the first test that uses it, and each later test."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import topics
from bench.peers.headrace import Headrace
from bench.peers.peer import Peer, PeerError
from bench.workload import Contestant, Goal, Metric, Sample

SUITE_TIMEOUT_S = 180
MS_PER_S = 1000
FIRST_GOAL_MS, LATER_GOAL_MS = 400.0, 10.0
SUITE = Path(__file__).parent.parent / "suite"
METRICS = (
    Metric("first_ms", "first use", "ms", "lower", Goal("value", FIRST_GOAL_MS), headline=True),
    Metric(
        "later_ms", "each later test", "ms", "lower", Goal("value", LATER_GOAL_MS), headline=True
    ),
)


@dataclass(frozen=True, slots=True)
class Fixture:
    """The `headrace` fixture: the time outside the test bodies, which use one topic each.

    First use is the set-up of the first test; each later test is the median of its set-up and
    clean-up together. Goals: 400 ms and 10 ms. Kafka has no fixture; its figures are its start,
    from exec to the first response, and the deletion of a test's topic.
    """

    tests: int = 40
    name: str = "fixture"
    title: str = "pytest fixture"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.fresh()
        try:
            if isinstance(peer, Headrace):
                return self._run_suite(peer.home)
            return self._start_and_delete(peer)
        finally:
            peer.discard()

    def _run_suite(self, home: Path) -> Sample:
        phases = home / "phases.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "-c", str(SUITE / "pytest.ini"), str(SUITE)],
            env=os.environ | {"BENCH_PHASES": str(phases), "BENCH_TESTS": str(self.tests)},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=SUITE_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise PeerError(f"the suite failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        tests = json.loads(phases.read_text())
        first, *later = tests
        return {
            "first_ms": first["setup"] * MS_PER_S,
            # The last test's clean-up includes the broker's stop.
            "later_ms": statistics.median(
                (test["setup"] + test["teardown"]) * MS_PER_S for test in later[:-1]
            ),
        }

    def _start_and_delete(self, peer: Peer) -> Sample:
        started_ms = peer.start()
        deleted_ms = []
        for number in range(self.tests):
            topics.create(peer, {f"test-{number}": 1})
            deleted_ms.append(topics.delete(peer, f"test-{number}", gone=False) * MS_PER_S)
        return {"first_ms": started_ms, "later_ms": statistics.median(deleted_ms)}

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""
