"""Creates a pipeline's client of a cluster."""

from random import SystemRandom
from typing import Protocol

from headrace.client.client import ClusterClient
from headrace.client.login.security import Security
from headrace.client.network.frames import Room
from headrace.clock import SystemClock


class ConnectionSettings(Protocol):
    """How to reach a cluster: a part of the settings for reading and for writing."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def security(self) -> Security: ...
    @property
    def client_id(self) -> str: ...
    @property
    def request_timeout_s(self) -> float: ...


def cluster_client(settings: ConnectionSettings, *, room: Room = bytearray) -> ClusterClient:
    """A client that connects with its first request. `room` allocates memory for responses."""
    return ClusterClient(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        clock=SystemClock(),
        random=SystemRandom(),
        security=settings.security,
        request_timeout_s=settings.request_timeout_s,
        room=room,
    )
