"""A broker without a working log directory exits with a remedy; other brokers continue."""

from pathlib import Path

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.simulation import Simulation
from support.brokers.members import Members, run, until
from support.brokers.processes import BrokerProcess
from support.waiting import wait_for
from support.wire.batches import batch, produce
from support.wire.connection import Wire
from support.wire.topics import create_topic

OFTEN_MS = 100
ENDING = 3
PATIENT = {"replica.lag.time.max.ms": "600000", "min.insync.replicas": "2"}


def test_a_process_exits_with_code_1_and_one_line_with_a_remedy(tmp_path: Path) -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": OFTEN_MS}
    with BrokerProcess(tmp_path, settings=settings) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "orders")
            assert produce(wire, "orders", batch(b"value")).error_code == 0
        broker.data.rename(tmp_path / "away")  # in one step: checkpoints are written meanwhile
        wait_for(lambda: not broker.running, "the broker has ended")
        assert broker.stop() == 1
        (line,) = [each for each in broker.log_text().splitlines() if "the broker stops" in each]
        assert " FATAL " in line and "start it again" in line
        assert str(broker.data) in line and "No such file or directory" in line


def test_other_brokers_lead_at_once_and_the_broker_returns_after_a_restart(tmp_path: Path) -> None:
    """This is fast although the lag limit and the session timeout are long."""

    async def create(members: Members) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[ENDING, 1, 2])
        new = CreatableTopic(
            name="orders", num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        answer = await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
        await until(members.agree, "everybody knows")

    async def test() -> None:
        async with Members(tmp_path, count=3, settings=PATIENT) as members:
            await create(members)
            broker = members.brokers[ENDING]
            broker.logs.directories[0].state.fail("a test pulled the plug")
            assert "a test pulled the plug" in str(await broker.ended)
            await until(lambda: members.partition(1).leader not in (-1, ENDING), "another leads")
            assert ENDING not in members.partition(1).isr
            await members.stop(ENDING)
            await members.start(ENDING)
            await until(lambda: ENDING in members.partition(1).isr, "it is in sync again")

    run(test())


def test_a_broker_with_another_directory_continues(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            directories = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
            broker = await members.start(ENDING, directories)
            one, two = broker.logs.directories
            one.state.fail("a test pulled the plug")
            await until(lambda: broker.logs.failure is None, "the other directory works")
            assert not broker.ended.done()
            two.state.fail("a test pulled the other plug")
            reason = str(await broker.ended)
            assert "pulled the plug" in reason and "the other plug" in reason

    run(test())


def test_a_simulated_broker_with_a_failed_sync_counts_as_crashed() -> None:
    with Simulation(seed=11) as simulation:
        cluster = SimulatedCluster(simulation, 3)
        cluster.start()
        simulation.run_until(cluster.is_known, 30, "all brokers are registered")
        victim = cluster.brokers[2]
        victim.process.host.disk.fail_syncs()
        simulation.run_until(lambda: not victim.process.running, 30, "it has ended")
        assert "Input/output error" in str(victim.process.exit_error)
        victim.process.start()
        simulation.run_until(cluster.is_known, 30, "it is back")
