"""Connections between brokers belong to one incarnation of the peer."""

import asyncio
from contextlib import suppress

import pytest

from headrace.broker.membership.peers import CONTROL, REPLICATION, Peers
from headrace.client.admin.topics import NewTopic, create_topics
from headrace.client.errors import ClientError
from headrace.client.network.connection import Address
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.testing.simulation.brokers import idle
from headrace.testing.simulation.clients.workload import client_of
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.simulation import Simulation
from support.brokers.members import run

PEER = 2
LONG_S = 60.0
LEADS_AGAIN_S = 22.0  # its partitions are given back to it when this has passed
QUICK_S = 3.0


class SilentPeer:
    """Accepts and never responds, like a machine without power."""

    def __init__(self) -> None:
        self.life: bytes | None = b"first"
        self.address: Address | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self.ended = asyncio.Event()

    async def __aenter__(self) -> "SilentPeer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = Address(host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(ConnectionError):
            while await reader.read(1024):
                pass
        self.ended.set()


def test_requests_to_an_earlier_incarnation_fail_when_the_next_one_is_known() -> None:
    async def test() -> None:
        async with SilentPeer() as peer:
            lost: list[int] = []
            peers = Peers(1, lambda _id: peer.address, lambda _id: peer.life)
            peers.on_lost = lost.append
            asked = peers.request(PEER, MetadataRequest(), MetadataResponse, timeout_s=LONG_S)
            waiting = asyncio.create_task(asked)
            before = await peers.connection(PEER, CONTROL)
            peers.drop_earlier_incarnations()
            assert before.is_open, "it is the same life"
            peer.life = b"second"
            peers.drop_earlier_incarnations()
            with pytest.raises(ClientError):
                await waiting
            assert not before.is_open
            await peer.ended.wait()
            assert lost == [], "nobody has crashed"
            after = await peers.connection(PEER, CONTROL)
            assert after.is_open and after is not before
            peers.hang_up()

    run(test())


def test_a_new_request_does_not_go_to_an_earlier_incarnation() -> None:
    async def test() -> None:
        async with SilentPeer() as peer:
            peers = Peers(1, lambda _id: peer.address, lambda _id: peer.life)
            before = await peers.connection(PEER, REPLICATION)
            peer.life = None  # gone for a while: no new incarnation is known
            assert await peers.connection(PEER, REPLICATION) is before
            peer.life = b"second"
            assert await peers.connection(PEER, REPLICATION) is not before
            peers.hang_up()

    run(test())


def test_a_follower_does_not_wait_for_a_leader_without_power() -> None:
    """The socket would stay silent for `replica.socket.timeout.ms`, half a minute."""
    with Simulation(seed=3) as simulation:
        cluster = SimulatedCluster(simulation, 3)
        cluster.start()
        client = simulation.process("clients", idle).start()
        simulation.run_until(cluster.is_known, 30, "all brokers are registered")
        admin = client_of(client, cluster.bootstrap, "admin")

        async def create() -> object:
            return await create_topics(admin, [NewTopic("orders", 6, 3)], timeout_s=30)

        simulation.do(client, create)
        simulation.run_until(cluster.is_whole, 30, "the cluster has started")
        victim = cluster.brokers[2].process
        victim.lose_power()
        simulation.run(0.05)
        victim.start()
        simulation.run(LEADS_AGAIN_S)
        assert {each.leader for each in cluster.partitions().values()} == {1, 2, 3}
        simulation.run_until(cluster.is_whole, QUICK_S, "all replicas are in sync again")
