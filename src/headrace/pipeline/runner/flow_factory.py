"""Creates the components of a flow from its spec."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.sinks.file_stores import iceberg_options, is_on_disk, rooted
from headrace.pipeline.sinks.table_sink import (
    BatchInfo,
    CommittedBatch,
    Mode,
    SinkError,
    TableSettings,
    TableSink,
)
from headrace.pipeline.spec import sinks as spec
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sources import TopicSource

CATALOG: Final = "catalog.db"


class DeadLetterSettings(Protocol):
    """A flow's dead-letter topic."""

    def last_marker(self, partitions: Sequence[TopicPartition]) -> CommittedBatch | None:
        """Returns the last batch whose dead letters are in the topic, with its end offsets."""
        ...

    def write(self, batch: BatchInfo, staged: Sequence[str]) -> int:
        """Writes the batch's bad records and its marker in one transaction.

        Returns their number.
        """
        ...

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Deletes the marker, for a flow that starts again from the beginning."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...


def kafka_settings(flow: Flow, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the client settings with secrets.

    Settings from the command line override the spec's.
    """
    own = flow.source.kafka if isinstance(flow.source, TopicSource) else None
    return {**flow.kafka_settings(own), **given}


def table_settings(sink: spec.TableSink, location: str) -> TableSettings:
    return TableSettings(
        location=location,
        mode=Mode(sink.mode),
        key=tuple(sink.key),
        partition_by=tuple(sink.partition_by),
        add_columns=sink.schema_evolution == "add_columns",
        storage_options=sink.storage_options.resolved() or None,
        target_file_bytes=sink.maintenance.target_file_size,
    )


def open_sink(flow: Flow, given: Mapping[str, str]) -> TableSink:
    """Opens the sink of a flow. Raises `SinkError`."""
    match flow.sink:
        case spec.Delta() as sink:
            from headrace.pipeline.sinks.delta_sink import DeltaSink

            return DeltaSink(table_settings(sink, rooted(sink.table)))
        case spec.Iceberg() as sink:
            from headrace.pipeline.sinks.iceberg_sink import IcebergSink

            warehouse = rooted(sink.warehouse or f"{flow.checkpoint}/warehouse")
            return IcebergSink(
                table_settings(sink, sink.table),
                warehouse=warehouse,
                catalog=iceberg_catalog(sink, warehouse, flow.checkpoint),
            )
        case spec.Parquet() as sink:
            from headrace.pipeline.sinks.parquet_sink import ParquetSink

            return ParquetSink(table_settings(sink, rooted(sink.table)))
        case spec.Topic() as sink:
            return _topic_sink(flow, sink, given)


def iceberg_catalog(sink: spec.Iceberg, warehouse: str, checkpoint: str) -> dict[str, str]:
    """Returns the properties of the catalog and its files.

    Without properties, Iceberg uses a SQL catalog in the warehouse. A bucket cannot contain the
    file of a SQL catalog. For a bucket, the file is in the checkpoint directory.
    """
    catalog = sink.catalog.resolved()
    if not catalog:
        if is_on_disk(warehouse):
            return {}
        home = Checkpoint(checkpoint).path
        home.mkdir(parents=True, exist_ok=True)
        catalog = {"type": "sql", "uri": f"sqlite:///{home / CATALOG}"}
    if sink.warehouse is not None:
        catalog.setdefault("warehouse", warehouse)
    return {**iceberg_options(sink.storage_options.resolved()), **catalog}


def _topic_sink(flow: Flow, sink: spec.Topic, given: Mapping[str, str]) -> TableSink:
    from headrace.pipeline.producer import producer_settings
    from headrace.pipeline.sinks.record_encoding import Encoding
    from headrace.pipeline.sinks.topic_sink import TopicSettings, TopicSink

    kafka = {**flow.kafka_settings(sink.kafka), **given}
    reads_topics = isinstance(flow.source, TopicSource)
    if reads_topics:
        source = kafka_settings(flow, given)
        if source.get("bootstrap.servers") != kafka.get("bootstrap.servers"):
            raise SinkError(
                "a topic sink writes to the cluster that its source reads from, so that offsets "
                "and records are one transaction: leave out bootstrap.servers of source and sink"
            )
    return TopicSink(
        TopicSettings(
            sink.topic,
            producer_settings(kafka),
            Checkpoint(flow.checkpoint).path,
            Encoding(sink.value, tuple(sink.key)),
            flow.on_error,
            # Records from topics have their dead letters in a separate transaction.
            None if reads_topics or flow.dead_letter is None else flow.dead_letter.topic,
        )
    )


def open_dead_letters(flow: Flow, kafka: Mapping[str, str]) -> DeadLetterSettings | None:
    """Returns None for a flow without a dead-letter topic.

    The first use may raise `ProducerFailed`.
    """
    if flow.dead_letter is None:
        return None
    from headrace.pipeline.dead_letters.dead_letter_writer import open_dead_letters as opened

    return opened(flow, kafka)
