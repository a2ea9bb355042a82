"""Creating and deleting topics around a workload. Timed only where that is the workload."""

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.peers.peer import Peer, PeerError

REQUEST_TIMEOUT_S = 180.0
# How long a deleted topic's files may stay before the next run starts regardless.
DELETE_TIMEOUT_S = 15.0
POLL_S = 0.1


def create(
    peer: Peer, *requests: Mapping[str, int], config: Mapping[str, str] | None = None
) -> float:
    """Creates topics (name to partition count), a request after the other; seconds they took."""
    client = _client(peer)
    # Connecting and finding the controller are the client's business, not the request's.
    client.list_topics(timeout=REQUEST_TIMEOUT_S)
    began = time.monotonic()
    for request in requests:
        _await(
            client.create_topics(
                [
                    NewTopic(name, partitions, 1, config=dict(config or {}))
                    for name, partitions in request.items()
                ],
                operation_timeout=REQUEST_TIMEOUT_S,
                request_timeout=REQUEST_TIMEOUT_S,
            )
        )
    return time.monotonic() - began


def delete(peer: Peer, name: str, *, gone: bool = True) -> float:
    """Deletes the topic, and returns the seconds until the answer.

    With `gone` it then waits until the files are gone too, so that runs do not pile up.
    """
    client = _client(peer)  # its requests end with it: it must outlive their answers
    client.list_topics(timeout=REQUEST_TIMEOUT_S)
    began = time.monotonic()
    _await(
        client.delete_topics(
            [name], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
        )
    )
    answered = time.monotonic()
    while (
        gone and time.monotonic() < answered + DELETE_TIMEOUT_S and any(peer.data.glob(f"{name}-*"))
    ):
        time.sleep(POLL_S)
    return answered - began


def configure(peer: Peer, name: str, setting: str, value: str) -> None:
    """Changes one setting of the topic."""
    client = _client(peer)
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    for answer in client.incremental_alter_configs([resource]).values():
        answer.result(REQUEST_TIMEOUT_S)


@contextmanager
def topic(
    peer: Peer, name: str, partitions: int, *, config: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A topic for one run. What earlier runs left to write is on disk before the run begins."""
    create(peer, {name: partitions}, config=config)
    os.sync()
    try:
        yield name
    finally:
        if peer.running:
            delete(peer, name)


def _await(answers: Mapping[str, Future[None]]) -> None:
    for name, answer in answers.items():
        try:
            answer.result()
        except KafkaException as refusal:
            raise PeerError(f"topic {name}: {refusal}") from refusal


def _client(peer: Peer) -> AdminClient:
    return AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 2})
