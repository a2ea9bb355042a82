"""Stray logs: logs on this broker that are not in the metadata.

A deleted topic cannot be distinguished from one that a restored ZooKeeper has lost, nor a partition
that moved away from one whose move was lost. So no log is deleted at once: it becomes a stray log,
and is restored as soon as the metadata has its topic id again. A topic is identified by its id: a
topic that was deleted and created again under the same name is a different one.
"""

import logging

from headrace.cluster.image import MetadataImage
from headrace.storage.directories.log_manager import NO_TOPIC_ID, LogManager
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig

log = logging.getLogger(__package__)


def update_stray_partitions(logs: LogManager, image: MetadataImage, node_id: int) -> None:
    """Makes a log stray if this broker has no such replica; restores a stray log if it has."""
    for each in logs:
        reason = _reason_to_be_stray(each, image, node_id)
        if reason is not None:
            make_stray(logs, each.topic, each.partition, reason)
    for stray in logs.stray_logs:
        topic = image.topics_by_id.get(stray.topic_id) if stray.topic_id else None
        name, index = stray.partition
        partition = None if topic is None or topic.name != name else topic.partition(index)
        if partition is None or node_id not in partition.replicas:
            log.warning(
                "stray log: not in the cluster metadata; it is not served",
                extra={"path": stray.path},
            )
        elif logs.get(name, index) is None and stray.directory.is_online:
            try:
                logs.restore_stray(stray, LogConfig())
            except StorageError as error:
                log.error(
                    "cannot restore stray log; it stays stray until the next start",
                    extra={"path": stray.path, "error": str(error)},
                )


def make_stray(logs: LogManager, topic: str, partition: int, reason: str) -> None:
    """Makes a log stray: its files stay but are not used. A log without records is deleted."""
    found = logs.get(topic, partition)
    if found is not None and _never_had_a_record(found):
        _delete_empty(logs, found)
        return
    try:
        stray = logs.make_stray(topic, partition)
    except StorageError as error:
        log.error(
            "cannot make log stray; its directory keeps its name",
            extra={"topic": topic, "partition": partition, "error": str(error)},
        )
        return
    if stray is not None:
        log.warning(
            "made log stray: it is not served, its files are kept",
            extra={"path": stray.path, "reason": reason},
        )


def _never_had_a_record(log: Log) -> bool:
    try:
        log.load()
    except StorageError:
        return False  # its records are unknown
    return log.log_end_offset == 0


def _delete_empty(logs: LogManager, empty: Log) -> None:
    try:
        logs.delete(empty.topic, empty.partition)
    except StorageError as error:
        log.error(
            "cannot delete empty log; it remains on disk",
            extra={"log": empty.name, "error": str(error)},
        )


def _reason_to_be_stray(log: Log, image: MetadataImage, node_id: int) -> str | None:
    """The reason why the log does not belong to this broker; None if it does."""
    if log.topic_id == NO_TOPIC_ID:  # the log never had a record
        topic = image.topics.get(log.topic)
    else:
        topic = image.topics_by_id.get(log.topic_id)
    if topic is None:
        return "its topic id is not in the cluster metadata"
    partition = topic.partition(log.partition)
    if partition is None or node_id not in partition.replicas:
        return "this broker has no replica of the partition"
    return None
