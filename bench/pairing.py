"""Interleaved runs: A B, B A, A B, ... so that drift of the machine affects both alike.

Each contestant is prepared and warmed up before the first pair counts.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from bench.workload import Contestant, Sample, Workload

Around = Callable[[Workload, Contestant], AbstractContextManager[None]]
OnSample = Callable[[Workload, str, Sample], None]


@dataclass(slots=True)
class Pairs:
    """The samples of one workload: `first[i]` and `second[i]` are one pair."""

    first: list[Sample] = field(default_factory=list)
    second: list[Sample] = field(default_factory=list)


def order(pair: int) -> tuple[int, int]:
    """The order within a pair: ABBA, so that neither contestant always runs second."""
    return (0, 1) if pair % 2 == 0 else (1, 0)


def run_pairs(
    workload: Workload,
    contestants: tuple[Contestant, Contestant],
    pairs: int,
    *,
    around: Around,
    on_sample: OnSample,
) -> Pairs:
    result = Pairs()
    columns = (result.first, result.second)
    with _prepared(workload, contestants):
        for _ in range(workload.warm_ups):
            for contestant in contestants:
                workload.run(contestant)
        for pair in range(pairs):
            for index in order(pair):
                contestant = contestants[index]
                with around(workload, contestant):
                    sample = workload.run(contestant)
                columns[index].append(sample)
                on_sample(workload, contestant.name, sample)
    return result


@contextmanager
def _prepared(workload: Workload, contestants: tuple[Contestant, Contestant]) -> Iterator[None]:
    ready: list[Contestant] = []
    try:
        for contestant in contestants:
            ready.append(contestant)
            workload.prepare(contestant)
        yield
    finally:
        for contestant in ready:
            workload.finish(contestant)
