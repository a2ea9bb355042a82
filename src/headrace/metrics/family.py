"""Metric families, and the collectors that produce them.

A family is one name with its samples. A sample is the values of the family's labels and a number:

- A label whose value is empty is left out of the sample, which is the same for Prometheus. Kafka's
  boards distinguish a broker's total from its topics in this way.
- A counter's name ends in `_total`.
- An info's name ends in `_info`; the value of its samples is 1.
- The samples of a summary have one more value after the labels: a quantile such as "0.99", or
  "sum" or "count". Those of a histogram: the upper bound of a bucket ("+Inf" for the last), "sum"
  or "count". Samples of the same labels follow each other; "count" is the last.

The scrape consumes samples in slices and returns to the event loop between them, so a lazy
collector iterates over snapshots (`tuple(...)`) of what can change meanwhile.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Kind = Literal["counter", "gauge", "summary", "histogram", "info"]

Sample = tuple[tuple[str, ...], float]


class MetricFamily(NamedTuple):
    """One metric: the same name, kind, help and labels for all samples."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: Iterable[Sample]


class Collector(Protocol):
    """Reads one part of the broker."""

    def collect(self) -> Iterator[MetricFamily | None]:
        """Yields families; runs on the event loop, a few samples at a time.

        A collector that computes for longer than a millisecond yields None meanwhile: the event
        loop may then serve other work. A family appears once in a scrape, so no two collectors
        yield the same name.
        """
        ...


@runtime_checkable
class PreparedCollector(Collector, Protocol):
    """A collector that needs more than this broker's memory, such as answers of other brokers."""

    async def prepare(self) -> None:
        """Called before each `collect`; must end within a few seconds."""
        ...
