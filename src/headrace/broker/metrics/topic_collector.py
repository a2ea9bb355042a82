"""What clients write and read: Kafka's BrokerTopicMetrics, in total and for each topic."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from headrace.broker.metrics.samples import counter, gauge
from headrace.broker.metrics.series_limits import SelectedTopics, SeriesHost
from headrace.metrics.family import MetricFamily, Sample
from headrace.metrics.topic_traffic import BrokerTraffic, TopicTraffic

PREFIX: Final = "kafka_server_brokertopicmetrics_"
TOPICS_A_SLICE: Final = 100


class _Counter(NamedTuple):
    name: str
    attribute: str
    help: str


_PER_TOPIC: Final = (
    _Counter("messagesin", "messages_in", "Records that leaders on this broker have appended"),
    _Counter("bytesin", "bytes_in", "Bytes that leaders on this broker have appended"),
    _Counter("bytesout", "bytes_out", "Bytes that consumers have fetched"),
    _Counter("bytesrejected", "bytes_rejected", "Bytes of batches that were too large"),
    _Counter(
        "totalproducerequests", "produces", "Batches of Produce requests, one for each partition"
    ),
    _Counter("totalfetchrequests", "fetches", "Partitions of answered Fetch requests"),
    _Counter(
        "failedproducerequests", "failed_produces", "Batches that were refused, with any error"
    ),
    _Counter(
        "failedfetchrequests",
        "failed_fetches",
        "Partitions of Fetch requests that failed with an unexpected error",
    ),
)
_TOTAL_ONLY: Final = (
    _Counter("replicationbytesin", "replication_bytes_in", "Bytes that followers here fetched"),
    _Counter(
        "replicationbytesout",
        "replication_bytes_out",
        "Bytes that followers fetched from leaders on this broker",
    ),
)


class TopicCollector:
    """Reads the counters of all topics."""

    def __init__(self, host: SeriesHost, traffic: BrokerTraffic) -> None:
        self._selected = SelectedTopics(host)
        self._traffic = traffic

    def collect(self) -> Iterator[MetricFamily | None]:
        listed: list[tuple[str, TopicTraffic]] = []
        for topic in self._selected.topics():
            if topic.traffic is not None:
                listed.append((topic.name, topic.traffic))
            if len(listed) % TOPICS_A_SLICE == 0:
                yield None
        for each in _PER_TOPIC:
            yield MetricFamily(
                f"{PREFIX}{each.name}_total",
                "counter",
                f"{each.help}; without a label, of all topics.",
                ("topic",),
                _samples(each.attribute, self._traffic, listed),
            )
        for each in _TOTAL_ONLY:
            value = self._traffic.total(each.attribute)
            yield counter(f"{PREFIX}{each.name}_total", f"{each.help}.", value)
        yield gauge(
            "headrace_metrics_omitted_topics",
            "Topics without series of their own: see headrace.http.max.topics and .max.partitions.",
            max(0, self._selected.hosted_topics() - len(listed)),
        )


def _samples(
    attribute: str, traffic: BrokerTraffic, listed: list[tuple[str, TopicTraffic]]
) -> Iterator[Sample]:
    read = attrgetter(attribute)
    yield ("",), traffic.total(attribute)
    for name, counters in listed:
        yield (name,), read(counters)
