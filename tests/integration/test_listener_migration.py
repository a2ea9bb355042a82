"""Brokers with an authorizer move to another listener for their own requests, one by one."""

from pathlib import Path

from support.brokers.members import Members, run, until
from support.brokers.orders_topic import create, produce, values
from support.security.access import AUTHORIZER

OLD = "OLD"
NEW = "NEW"
SETTINGS = {
    **AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "listeners": f"{OLD}://127.0.0.1:0,{NEW}://127.0.0.1:0",
    "listener.security.protocol.map": f"{OLD}:PLAINTEXT,{NEW}:PLAINTEXT",
}


def test_brokers_on_both_listeners_are_one_cluster(tmp_path: Path) -> None:
    """While some brokers use the old listener and others the new one, they replicate."""

    async def test() -> None:
        async with Members(tmp_path, count=0, settings=SETTINGS) as members:
            for id_, listener in ((1, OLD), (2, NEW), (3, OLD)):
                await members.start(id_, {"inter.broker.listener.name": listener})
            await until(members.agree, "all brokers have the same metadata")
            await create(members)
            await until(lambda: len(members.partition(1).isr) == 3, "all replicas are in sync")
            leader = members.partition(1).leader
            assert (await produce(members, leader, b"a")).error_code == 0
            await until(
                lambda: all(values(members, id_) == [b"a"] for id_ in members.brokers),
                "every replica has the record",
            )

    run(test())
