"""The environment of a simulated process: time, randomness, files, threads and workers."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, ParamSpec, TypeVar

from headrace.broker.maintenance.cleaner_worker import answers_of
from headrace.broker.runtime.offload import Offload
from headrace.broker.runtime.worker import WorkerEnded
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import BrokerFenced, MetadataRecord
from headrace.cluster.metadata_store import StaleVersion
from headrace.storage.cleaning.cleaner_messages import encode_report
from headrace.testing.simulation.files import SimulatedFiles
from headrace.testing.simulation.loop import ProcessLoop
from headrace.testing.simulation.schedule import Schedule

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock's time when a simulation starts."""

LONGEST_HAND_OVER_S: Final = 300e-6


class SimulatedClock:
    """The clocks of one host; `skew_ms` is the error of its wall clock."""

    def __init__(self, schedule: Schedule, skew_ms: int = 0) -> None:
        self._schedule = schedule
        self.skew_ms = skew_ms

    def monotonic(self) -> float:
        return self._schedule.now_s

    def wall_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + int(self._schedule.now_s * 1000)


class SimulatedOffload:
    """Simulates threads: a call runs as a whole, between its submission and its completion."""

    def __init__(self, loop: ProcessLoop, files: SimulatedFiles, chance: Random) -> None:
        self._loop = loop
        self._files = files
        self._random = chance

    def __call__(
        self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_later(
            self._random.random() * LONGEST_HAND_OVER_S,
            lambda: self._run(future, lambda: call(*args, **kwargs)),
        )
        return future

    def _run(self, future: "asyncio.Future[T]", call: Callable[[], T]) -> None:
        if future.cancelled():
            return
        taken_s = [self._random.random() * LONGEST_HAND_OVER_S]
        charge, self._files.charge = self._files.charge, taken_s.append
        result: T | None = None
        error: Exception | None = None
        try:
            result = call()
        except Exception as raised:
            error = raised
        finally:
            self._files.charge = charge

        def finish() -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        self._loop.call_later(sum(taken_s), finish)

    def close(self) -> None:
        """Does nothing: the simulation has no threads."""


class SimulatedWorker:
    """Simulates the compaction process: it works when its result is requested."""

    pid = 0

    def __init__(self, files: SimulatedFiles, offload: Offload) -> None:
        self._files = files
        self._offload = offload
        self._answers: list[bytes] = []
        self._closed = False

    async def send(self, line: bytes) -> None:
        self._answers += await self._offload(self._work, line)

    def _work(self, line: bytes) -> list[bytes]:
        found = answers_of(line, self._files, lambda _rate: lambda _size: None)
        return [encode_report(answer) for answer in found]

    async def receive(self) -> bytes:
        if self._closed or not self._answers:
            raise WorkerEnded("the worker has ended")
        return self._answers.pop(0)

    def close(self) -> None:
        self._closed = True


class SimulatedMetadata:
    """The metadata store of a standalone node; it outlives the node's processes."""

    def __init__(self) -> None:
        self._image = MetadataImage()

    def open(self, _place: str) -> "SimulatedMetadata":
        live = [broker for broker in self._image.brokers.values() if not broker.fenced]
        fenced = [BrokerFenced(each.broker_id) for each in live]
        if fenced:
            self._image = self._image.apply(fenced)
        return self

    def load(self) -> MetadataImage:
        return self._image

    def commit(self, records: Sequence[MetadataRecord], *, expected_version: int) -> int:
        if self._image.version != expected_version:
            raise StaleVersion(expected_version, self._image.version)
        self._image = self._image.apply(records)
        return self._image.version

    def close(self) -> None:
        """Does nothing: the store needs no clean-up."""
