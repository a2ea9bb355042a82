"""Creating and deleting topics around a workload. Timed only where that is the workload."""

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.peers.peer import Peer, PeerError

REQUEST_TIMEOUT_S = 180.0
# How long a deleted topic's files may stay before the next run starts regardless.
DELETE_TIMEOUT_S = 15.0
POLL_S = 0.1


def create(peer: Peer, *requests: Mapping[str, int]) -> float:
    """Creates topics (name to partition count), a request after the other; seconds they took."""
    client = _client(peer)
    # Connecting and finding the controller are the client's business, not the request's.
    client.list_topics(timeout=REQUEST_TIMEOUT_S)
    began = time.monotonic()
    for request in requests:
        _await(
            client.create_topics(
                [NewTopic(name, partitions, 1) for name, partitions in request.items()],
                operation_timeout=REQUEST_TIMEOUT_S,
                request_timeout=REQUEST_TIMEOUT_S,
            )
        )
    return time.monotonic() - began


def delete(peer: Peer, name: str) -> None:
    """Deletes the topic and waits until its files are gone, so that runs do not pile up."""
    client = _client(peer)  # its requests end with it: it must outlive their answers
    _await(
        client.delete_topics(
            [name], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
        )
    )
    deadline = time.monotonic() + DELETE_TIMEOUT_S
    while any(peer.data.glob(f"{name}-*")) and time.monotonic() < deadline:
        time.sleep(POLL_S)


@contextmanager
def topic(peer: Peer, name: str, partitions: int) -> Iterator[str]:
    """A topic for one run. What earlier runs left to write is on disk before the run begins."""
    create(peer, {name: partitions})
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
