"""Scrapes: the loop is not blocked, one text at a time, failures of collectors."""

import asyncio
import gzip
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from headrace.broker.http.scrape import SLICE_S, Scraper, Variant
from headrace.broker.runtime.offload import ThreadOffload
from headrace.metrics.family import MetricFamily, Sample
from headrace.metrics.text_format import LINES_PER_CHUNK, TextFormat

T = TypeVar("T")
PLAIN = Variant(TextFormat.PROMETHEUS, gzip=False)
OPEN = Variant(TextFormat.OPENMETRICS, gzip=False)


class Clock:
    """Time passes only where a collector works."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Numbers:
    """A collector of `count` samples, each of which takes `busy_s`."""

    def __init__(self, count: int = 3, busy_s: float = 0.0, clock: Clock | None = None) -> None:
        self.collected = 0
        self._clock = clock or Clock()
        self._count = count
        self._busy_s = busy_s

    def collect(self) -> Iterator[MetricFamily | None]:
        self.collected += 1
        yield None
        yield MetricFamily("n", "gauge", "help", ("n",), self._samples())

    def _samples(self) -> Iterator[Sample]:
        for number in range(self._count):
            self._clock.now += self._busy_s
            yield (str(number),), number


class Broken:
    """A collector that fails in the middle."""

    def collect(self) -> Iterator[MetricFamily | None]:
        yield MetricFamily("before", "gauge", "help", (), [((), 1)])
        raise RuntimeError("broken")


def scrape(
    run: Callable[[Scraper], object], *collectors: object, clock: Clock | None = None
) -> object:
    async def main() -> object:
        loop = asyncio.get_running_loop()
        offload = ThreadOffload(loop)
        monotonic = (clock or Clock()).monotonic
        scraper = Scraper(loop, offload, monotonic, lambda: collectors)  # type: ignore[arg-type, return-value]
        try:
            return await run(scraper)  # type: ignore[misc]
        finally:
            offload.close()

    return asyncio.run(main())


def test_the_loop_serves_other_work_after_each_slice() -> None:
    """A scrape of 100 ms in slices of one, each of which ends with a chunk of lines."""
    clock = Clock()
    sample_s = 0.000_01
    turns = 0

    async def run(scraper: Scraper) -> None:
        nonlocal turns
        task = asyncio.ensure_future(scraper.body(PLAIN))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        await task
        slice_s = SLICE_S + LINES_PER_CHUNK * sample_s
        assert SLICE_S <= scraper.longest_slice_s <= slice_s + 1e-9
        assert turns >= 10_000 * sample_s / slice_s

    scrape(run, Numbers(10_000, sample_s, clock), clock=clock)
    assert turns < 1000


def test_requests_for_the_same_format_share_a_text() -> None:
    numbers = Numbers()

    async def run(scraper: Scraper) -> None:
        same = await asyncio.gather(*(scraper.body(PLAIN) for _ in range(5)), scraper.body(OPEN))
        assert same[0] == same[4] != same[5]

    scrape(run, numbers)
    assert numbers.collected == 2


def test_a_client_that_leaves_does_not_end_the_text_of_others() -> None:
    async def run(scraper: Scraper) -> None:
        leaving = asyncio.ensure_future(scraper.body(PLAIN))
        staying = asyncio.ensure_future(scraper.body(PLAIN))
        await asyncio.sleep(0)
        leaving.cancel()
        assert b'n{n="0"} 0' in b"".join(await staying)

    scrape(run, Numbers())


def test_gzip_has_the_same_text() -> None:
    async def run(scraper: Scraper) -> None:
        plain = b"".join(await scraper.body(PLAIN))
        packed = b"".join(await scraper.body(PLAIN._replace(gzip=True)))
        assert gzip.decompress(packed) == plain
        assert len(packed) < len(plain) / 2

    scrape(run, Numbers(count=20_000))


def test_a_collector_that_fails_costs_its_own_samples(caplog: pytest.LogCaptureFixture) -> None:
    async def run(scraper: Scraper) -> None:
        for _ in range(3):
            text = b"".join(await scraper.body(OPEN))
            assert b"before 1\n" in text
            assert b'n{n="2"} 2\n' in text
            assert text.endswith(b"# EOF\n")
        assert scraper.errors == 3

    scrape(run, Broken(), Numbers())
    assert [record.message for record in caplog.records] == [
        "a metrics collector failed; its remaining samples are missing from /metrics"
    ]
