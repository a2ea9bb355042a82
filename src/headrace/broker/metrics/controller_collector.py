"""The cluster as its active controller sees it: Kafka's KafkaController.

Other brokers report 0, so that the sum over all brokers is right. A standalone node is its own
controller.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.metrics.samples import gauge
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER
from headrace.metrics.family import MetricFamily

PREFIX: Final = "kafka_controller_kafkacontroller_"
TOPICS_A_SLICE: Final = 200


class ControllerCollectorHost(Protocol):
    """What the collector needs of the broker."""

    @property
    def is_controller(self) -> bool: ...

    @property
    def metadata(self) -> MetadataView: ...


class _ClusterCounts(NamedTuple):
    offline: int = 0
    not_preferred: int = 0


class ControllerCollector:
    """Counts the partitions of an image once: an image does not change."""

    def __init__(self, host: ControllerCollectorHost) -> None:
        self._host = host
        self._counted: tuple[MetadataImage, _ClusterCounts] | None = None

    def collect(self) -> Iterator[MetricFamily | None]:
        is_active = self._host.is_controller
        image = self._host.metadata.image
        if is_active and (self._counted is None or self._counted[0] is not image):
            yield from self._count(image)
        if not is_active:
            self._counted = None
            image = MetadataImage()
        counts = _ClusterCounts() if self._counted is None else self._counted[1]
        fenced = sum(1 for broker in image.brokers.values() if broker.fenced)
        for name, help_, value in (
            ("activecontrollercount", "1 on the active controller.", int(is_active)),
            ("offlinepartitionscount", "Partitions without a leader.", counts.offline),
            (
                "preferredreplicaimbalancecount",
                "Partitions that another replica than the preferred one leads.",
                counts.not_preferred,
            ),
            ("fencedbrokercount", "Registered brokers that are fenced.", fenced),
            ("activebrokercount", "Brokers that are not fenced.", len(image.brokers) - fenced),
            ("globaltopiccount", "Topics of the cluster.", len(image.topics)),
            ("globalpartitioncount", "Partitions of the cluster.", image.partition_count),
        ):
            yield gauge(PREFIX + name, f"{help_} 0 on brokers that are not the controller.", value)

    def _count(self, image: MetadataImage) -> Iterator[None]:
        offline = not_preferred = 0
        for number, topic in enumerate(tuple(image.topics.values()), start=1):
            for partition in topic.partitions:
                if partition.leader == NO_LEADER:
                    offline += 1
                elif partition.leader != partition.replicas[0]:
                    not_preferred += 1
            if number % TOPICS_A_SLICE == 0:
                yield None
        self._counted = (image, _ClusterCounts(offline, not_preferred))
