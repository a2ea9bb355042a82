"""Brokers without an id get one from their cluster, and keep it."""

import asyncio
from pathlib import Path

from headrace.broker.node import Broker
from headrace.broker.runtime.environment import Environment
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.stores.embedded import EmbeddedCluster
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from support.brokers.members import run, until


def test_a_broker_without_an_id_gets_one_and_keeps_it_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        cluster = EmbeddedCluster(SqliteStore(IN_MEMORY))
        world = Environment(cluster_store=lambda *_: cluster.store())

        async def started(name: str) -> Broker:
            settings = {
                "zookeeper.connect": "unused:2181",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": f"{tmp_path}/{name}-1,{tmp_path}/{name}-2",
            }
            broker = Broker(BrokerSettings.parse(settings), environment=world)
            await broker.start()
            return broker

        first, second = await asyncio.gather(started("a"), started("b"))
        ids = {first.node_id, second.node_id}
        assert ids == {1001, 1002}
        await until(lambda: set(first.metadata.image.brokers) == ids, "both are known")
        before = first.node_id
        await first.stop()
        written = (tmp_path / "a-2" / "meta.properties").read_text()
        assert f"node.id={before}" in written.splitlines()
        again = await started("a")
        third = await started("c")
        assert (again.node_id, third.node_id) == (before, 1003)
        for broker in (again, second, third):
            await broker.stop()
        cluster.close()

    run(test())
