"""Creating and deleting topics around a workload. Timed only where that is the workload."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.peers.peer import PeerError, Served

REQUEST_TIMEOUT_S = 180.0
# How long a deleted topic's files may stay before the next run starts regardless.
DELETE_TIMEOUT_S = 15.0
POLL_S = 0.1


def create(
    peer: Served,
    *requests: Mapping[str, int],
    config: Mapping[str, str] | None = None,
    replicas: int = 1,
) -> float:
    """Creates topics (name to partition count), one request after another; returns the seconds."""
    client = _client(peer)
    # Connecting and finding the controller are not part of the request.
    client.list_topics(timeout=REQUEST_TIMEOUT_S)
    began = time.monotonic()
    for request in requests:
        _await(
            client.create_topics(
                [
                    NewTopic(name, partitions, replicas, config=dict(config or {}))
                    for name, partitions in request.items()
                ],
                operation_timeout=REQUEST_TIMEOUT_S,
                request_timeout=REQUEST_TIMEOUT_S,
            )
        )
    return time.monotonic() - began


def place(peer: Served, name: str, replicas: Sequence[int]) -> None:
    """Creates a topic of one partition on these brokers; the first leads."""
    client = _client(peer)
    client.list_topics(timeout=REQUEST_TIMEOUT_S)
    new = NewTopic(name, 1, replica_assignment=[list(replicas)])
    _await(client.create_topics([new], request_timeout=REQUEST_TIMEOUT_S))


@contextmanager
def creating(peer: Served, name: str, *, partitions: int, replicas: int) -> Iterator[None]:
    """The topic's creation is requested when the block begins and answered when it ends."""
    client = _client(peer)
    client.list_topics(timeout=REQUEST_TIMEOUT_S)
    answers = client.create_topics(
        [NewTopic(name, partitions, replicas)], request_timeout=REQUEST_TIMEOUT_S
    )
    yield
    _await(answers)


def delete(peer: Served, name: str, *, gone: bool = True) -> float:
    """Deletes the topic, and returns the seconds until the response.

    With `gone` it then waits until the files are deleted too, so that runs do not accumulate.
    """
    client = _client(peer)  # its requests end with it, so it must outlive their responses
    client.list_topics(timeout=REQUEST_TIMEOUT_S)
    began = time.monotonic()
    _await(
        client.delete_topics(
            [name], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
        )
    )
    answered = time.monotonic()
    while gone and time.monotonic() < answered + DELETE_TIMEOUT_S and peer.holds(name):
        time.sleep(POLL_S)
    return answered - began


def configure(peer: Served, name: str, setting: str, value: str) -> None:
    """Changes one setting of the topic."""
    client = _client(peer)
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    for answer in client.incremental_alter_configs([resource]).values():
        answer.result(REQUEST_TIMEOUT_S)


@contextmanager
def topic(
    peer: Served,
    name: str,
    partitions: int,
    *,
    config: Mapping[str, str] | None = None,
    replicas: int = 1,
) -> Iterator[str]:
    """A topic for one run. Writes of earlier runs are on disk before the run begins."""
    create(peer, {name: partitions}, config=config, replicas=replicas)
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


def _client(peer: Served) -> AdminClient:
    return AdminClient(
        {"bootstrap.servers": peer.bootstrap, "log_level": 2, **peer.load.client_settings}
    )
