"""Logs of partitions that are not this broker's any more: what was decided while it was away."""

import logging

from headrace.cluster.image import MetadataImage
from headrace.storage.errors import StorageError
from headrace.storage.log import Log
from headrace.storage.manager import NO_TOPIC_ID, LogManager

log = logging.getLogger(__name__)


def delete_strays(logs: LogManager, image: MetadataImage, node_id: int) -> int:
    """Deletes logs whose topic is gone or whose partition moved away; returns how many.

    A topic is known by its id: one that was deleted and made anew under the same name is another.
    """
    deleted = 0
    for each in logs:
        if _belongs(each, image, node_id):
            continue
        try:
            logs.delete(each.topic, each.partition)
        except StorageError as error:
            log.error("a stray log remains", extra={"log": each.name, "error": str(error)})
            continue
        deleted += 1
        log.warning("deleted a log that is not this broker's any more", extra={"log": each.name})
    return deleted


def _belongs(log: Log, image: MetadataImage, node_id: int) -> bool:
    if log.topic_id == NO_TOPIC_ID:  # it never had a record
        topic = image.topics.get(log.topic)
    else:
        topic = image.topics_by_id.get(log.topic_id)
    partition = None if topic is None else topic.partition(log.partition)
    return partition is not None and node_id in partition.replicas
