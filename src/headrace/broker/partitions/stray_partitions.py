"""Logs that the cluster does not know: what was decided while this broker was away, or was lost.

Nobody can tell a topic that was deleted from one that a restored ZooKeeper has forgotten, nor a
partition that moved away from one whose move is forgotten. So neither is deleted at once: the log
is set aside, and is back as soon as its topic id is known again. A topic is known by its id: one
that was deleted and made anew under the same name is another.
"""

import logging

from headrace.cluster.image import MetadataImage
from headrace.storage.directories.log_manager import NO_TOPIC_ID, LogManager
from headrace.storage.errors import StorageError
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig

log = logging.getLogger(__name__)


def settle_strays(logs: LogManager, image: MetadataImage, node_id: int) -> None:
    """Sets aside what is not this broker's, and puts back what is."""
    for each in logs:
        reason = _why_not(each, image, node_id)
        if reason is not None:
            put_aside(logs, each.topic, each.partition, reason)
    for stray in logs.stray_logs:
        topic = image.topics_by_id.get(stray.topic_id) if stray.topic_id else None
        name, index = stray.partition
        partition = None if topic is None or topic.name != name else topic.partition(index)
        if partition is None or node_id not in partition.replicas:
            log.warning("a log is set aside", extra={"path": stray.path})
        elif logs.get(name, index) is None and stray.home.is_online:
            try:
                logs.restore_stray(stray, LogConfig())
            except StorageError as error:
                log.error("a log stays aside", extra={"path": stray.path, "error": str(error)})


def put_aside(logs: LogManager, topic: str, partition: int, reason: str) -> None:
    """Keeps a log's files, out of use; says so. A log without a record is deleted."""
    found = logs.get(topic, partition)
    if found is not None and _never_had_a_record(found):
        _delete_empty(logs, found)
        return
    try:
        stray = logs.make_stray(topic, partition)
    except StorageError as error:
        log.error(
            "a log could not be set aside",
            extra={"topic": topic, "partition": partition, "error": str(error)},
        )
        return
    if stray is not None:
        log.warning("set a log aside", extra={"path": stray.path, "reason": reason})


def _never_had_a_record(log: Log) -> bool:
    try:
        log.load()
    except StorageError:
        return False  # what it holds cannot be known
    return log.log_end_offset == 0


def _delete_empty(logs: LogManager, empty: Log) -> None:
    try:
        logs.delete(empty.topic, empty.partition)
    except StorageError as error:
        log.error("an empty log remains", extra={"log": empty.name, "error": str(error)})


def _why_not(log: Log, image: MetadataImage, node_id: int) -> str | None:
    """Why this broker should not have it; None if it should."""
    if log.topic_id == NO_TOPIC_ID:  # it never had a record
        topic = image.topics.get(log.topic)
    else:
        topic = image.topics_by_id.get(log.topic_id)
    if topic is None:
        return "the cluster does not know its topic id"
    partition = topic.partition(log.partition)
    if partition is None or node_id not in partition.replicas:
        return "this broker holds no replica of it"
    return None
