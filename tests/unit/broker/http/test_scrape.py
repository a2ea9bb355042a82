"""Scrapes: the loop is not blocked, one text at a time, failures of collectors."""

import asyncio
import gzip
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from headrace.broker.http.scrape import SLICE_S, Scraper, Variant
from headrace.broker.runtime.offload import ThreadOffload
from headrace.metrics.family import MetricFamily, Sample
from headrace.metrics.text_format import TextFormat

T = TypeVar("T")
PLAIN = Variant(TextFormat.PROMETHEUS, gzip=False)
OPEN = Variant(TextFormat.OPENMETRICS, gzip=False)


class Numbers:
    """A collector of `count` samples, each of which takes `busy_s`."""

    def __init__(self, count: int = 3, busy_s: float = 0.0) -> None:
        self.collected = 0
        self._count = count
        self._busy_s = busy_s

    def collect(self) -> Iterator[MetricFamily | None]:
        self.collected += 1
        yield None
        yield MetricFamily("n", "gauge", "help", ("n",), self._samples())

    def _samples(self) -> Iterator[Sample]:
        for number in range(self._count):
            until = time.perf_counter() + self._busy_s
            while time.perf_counter() < until:
                pass
            yield (str(number),), number


class Broken:
    """A collector that fails in the middle."""

    def collect(self) -> Iterator[MetricFamily | None]:
        yield MetricFamily("before", "gauge", "help", (), [((), 1)])
        raise RuntimeError("broken")


def scrape(run: Callable[[Scraper], object], *collectors: object) -> object:
    async def main() -> object:
        loop = asyncio.get_running_loop()
        offload = ThreadOffload(loop)
        scraper = Scraper(loop, offload, time.monotonic, lambda: collectors)  # type: ignore[arg-type, return-value]
        try:
            return await run(scraper)  # type: ignore[misc]
        finally:
            offload.close()

    return asyncio.run(main())


def test_the_loop_serves_other_work_during_a_scrape() -> None:
    """A scrape of 100 ms leaves the loop free after each slice."""
    waits: list[float] = []

    async def run(scraper: Scraper) -> None:
        task = asyncio.ensure_future(scraper.body(PLAIN))
        while not task.done():
            began = time.perf_counter()
            await asyncio.sleep(0)
            waits.append(time.perf_counter() - began)
        await task
        assert scraper.longest_slice_s >= SLICE_S

    scrape(run, Numbers(count=2000, busy_s=0.000_05))
    assert len(waits) > 20
    assert sorted(waits)[len(waits) // 2] < 0.005 + 50 * 0.000_05


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
