"""Whether a log's length changes the speed at its end."""

import os
import shutil
import statistics
import time
from dataclasses import dataclass

from bench import topics
from bench.load_generator import Option
from bench.peers.peer import Peer
from bench.workload import Contestant, Goal, Metric, Sample

MESSAGE_BYTES = 1000
SHORT_BYTES = 100_000_000
FILL_TIMEOUT_MS = 1_800_000
# What one contestant's appends and the short log add to the long one.
HEADROOM_BYTES = 20_000_000_000
KEPT_GOAL = 0.9

METRICS = (
    Metric("append_short", "append, 100 MB in the log", "msg/s", "higher"),
    Metric("append_long", "append, long log", "msg/s", "higher", headline=True),
    Metric("tail_short", "tail read, 100 MB in the log", "msg/s", "higher"),
    Metric("tail_long", "tail read, long log", "msg/s", "higher", headline=True),
    Metric("append_kept", "append, long / short", "x", "higher", Goal("value", KEPT_GOAL)),
    Metric("tail_kept", "tail read, long / short", "x", "higher", Goal("value", KEPT_GOAL)),
)


class DiskSpaceError(Exception):
    """The long log does not fit; the message gives the free space and a size that fits."""


@dataclass(frozen=True, slots=True)
class LongLog:
    """One partition that holds 100 MB and one that holds `long_bytes`, appended to and read."""

    long_bytes: int
    count: int
    name: str = "long-log"
    title: str = "Long log"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        peer = contestant.warm()
        free = shutil.disk_usage(peer.home).free
        if free < self.long_bytes + HEADROOM_BYTES:
            raise DiskSpaceError(
                f"{free / 1e9:.0f} GB are free under {peer.home.parent}, "
                f"{(self.long_bytes + HEADROOM_BYTES) / 1e9:.0f} GB are needed: "
                "use --big-log-gb or --work."
            )
        topics.create(peer, {"log-long": 1})
        produce(peer, "log-long", self.long_bytes // MESSAGE_BYTES, timeout_ms=FILL_TIMEOUT_MS)

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        figures: dict[str, float] = {}
        # Each run uses a new short log, and none is deleted before the end. If short logs are
        # deleted after each run and always appended to first, both brokers seem to append to a long
        # log at 0.35 to 0.45 of the speed. Reused page cache is the likely but unproven reason.
        short = f"log-short-{time.monotonic_ns()}"
        topics.create(peer, {short: 1})
        produce(peer, short, SHORT_BYTES // MESSAGE_BYTES)
        both = (("short", short), ("long", "log-long"))
        appended: dict[str, list[float]] = {"short": [], "long": []}
        # In both directions: remaining disk work of the run before affects both alike.
        for length, topic in (*both, *reversed(both)):
            os.sync()
            appended[length].append(produce(peer, topic, self.count))
        for length, topic in both:
            figures[f"append_{length}"] = statistics.mean(appended[length])
            tail = peer.load.run(
                "consume", peer.bootstrap, topic=topic, count=self.count, tail=self.count
            )
            figures[f"tail_{length}"] = tail["per_second"]
        for kind in ("append", "tail"):
            figures[f"{kind}_kept"] = figures[f"{kind}_long"] / figures[f"{kind}_short"]
        return figures

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: this workload is the last one, and the data is removed with the brokers."""


def produce(peer: Peer, topic: str, count: int, **options: Option) -> float:
    """Appends to the topic's only partition; messages per second."""
    answer = peer.load.run(
        "produce", peer.bootstrap, topic=topic, count=count, size=MESSAGE_BYTES, **options
    )
    return answer["per_second"]
