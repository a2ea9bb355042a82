"""The time of a scrape of a broker with 10,000 partitions, and how long it keeps the event loop."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from bench import artifacts
from bench.load_generator import LoadGenerator
from bench.operate.brokers import Filled, timed_scrape
from bench.stats import Spread, spread

SCRAPES: Final = 20
GOAL_MS: Final = 500
SLICE_GOAL_MS: Final = 5
SLICE: Final = b"headrace_scrape_longest_slice_seconds "


def report(work: Path) -> str:
    """Measures, and returns the figures as text."""
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=work))
    broker = Filled(home / "broker", LoadGenerator(artifacts.load_generator()))
    try:
        broker.start()
        size = len(timed_scrape(broker, compressed=False)[1])  # also builds the collectors
        samples = broker.scrape().count(b"\n")
        plain = spread([timed_scrape(broker, compressed=False)[0] for _ in range(SCRAPES)])
        packed = spread([timed_scrape(broker, compressed=True)[0] for _ in range(SCRAPES)])
        slices = spread([_longest_slice_ms(broker.scrape()) for _ in range(SCRAPES)])
    finally:
        if broker.running:
            broker.stop()
        shutil.rmtree(home, ignore_errors=True)
    return "\n".join(
        (
            f"a scrape of {samples:,} lines, {size / 1e6:.1f} MB; {SCRAPES} scrapes of each kind:",
            _line("plain text", plain, GOAL_MS),
            _line("gzip", packed, GOAL_MS),
            _line("longest time without a pause for other work", slices, SLICE_GOAL_MS),
        )
    )


def _longest_slice_ms(text: bytes) -> float:
    """The figure of the scrape before this one."""
    line = next(each for each in text.splitlines() if each.startswith(SLICE))
    return float(line.removeprefix(SLICE)) * 1000


def _line(title: str, figures: Spread, goal_ms: float) -> str:
    return (
        f"  {title}: median {figures.median:.1f} ms, from {figures.low:.1f} to "
        f"{figures.high:.1f} ms (goal: {goal_ms} ms)"
    )
