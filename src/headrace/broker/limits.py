"""The broker-wide numbers that handlers need, read once from the settings."""

from dataclasses import dataclass

from headrace.cluster.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Limits:
    """Named as Kafka's settings are."""

    fetch_max_bytes: int
    auto_create_topics: bool
    max_partitions_per_page: int

    @classmethod
    def of(cls, settings: BrokerSettings) -> "Limits":
        return cls(
            fetch_max_bytes=settings.integer("fetch.max.bytes"),
            auto_create_topics=settings.boolean("auto.create.topics.enable"),
            max_partitions_per_page=settings.integer("max.request.partition.size.limit"),
        )
