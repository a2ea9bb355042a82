"""Runs alternate, warm-ups do not count, and every prepared workload is finished."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest
from bench.pairing import Pairs, run_pairs
from bench.peers.peer import Peer, PeerError
from bench.workload import Contestant, Metric, Sample


@dataclass
class Scripted:
    """A workload that only records its calls."""

    warm_ups: int = 1
    fail_at: int = -1
    name: str = "scripted"
    title: str = "Scripted"
    metrics: tuple[Metric, ...] = (Metric("n", "number", "", "higher"),)
    calls: list[str] = field(default_factory=list)

    def prepare(self, contestant: Contestant) -> None:
        self.calls.append(f"prepare {contestant.name}")

    def run(self, contestant: Contestant) -> Sample:
        if len(self.calls) == self.fail_at:
            raise PeerError("it died")
        self.calls.append(contestant.name)
        return {"n": float(len(self.calls))}

    def finish(self, contestant: Contestant) -> None:
        self.calls.append(f"finish {contestant.name}")


def no_broker(_: object) -> NoReturn:
    raise AssertionError("this workload starts no broker")


def contestants(tmp_path: Path) -> tuple[Contestant, Contestant]:
    def build(home: Path) -> Peer:
        no_broker(home)

    return (
        Contestant("a", tmp_path / "a", build, no_broker),
        Contestant("b", tmp_path / "b", build, no_broker),
    )


def run(workload: Scripted, tmp_path: Path, pairs: int) -> Pairs:
    return run_pairs(
        workload,
        contestants(tmp_path),
        pairs,
        around=lambda _workload, _contestant: nullcontext(),
        on_sample=lambda _workload, _name, _sample: None,
    )


def test_pairs_run_abba_after_both_are_warm(tmp_path: Path) -> None:
    workload = Scripted()
    result = run(workload, tmp_path, 3)
    assert workload.calls == [
        *("prepare a", "prepare b"),
        *("a", "b"),
        *("a", "b", "b", "a", "a", "b"),
        *("finish a", "finish b"),
    ]
    assert len(result.first) == len(result.second) == 3


def test_samples_belong_to_their_contestant_in_any_order(tmp_path: Path) -> None:
    result = run(Scripted(warm_ups=0), tmp_path, 2)
    assert [sample["n"] for sample in result.first] == [3.0, 6.0]
    assert [sample["n"] for sample in result.second] == [4.0, 5.0]


def test_a_run_that_fails_still_finishes_both(tmp_path: Path) -> None:
    workload = Scripted(fail_at=4)
    with pytest.raises(PeerError):
        run(workload, tmp_path, 3)
    assert workload.calls[-2:] == ["finish a", "finish b"]
