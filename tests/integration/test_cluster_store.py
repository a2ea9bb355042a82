"""One contract for the stores of a cluster: embedded, simulated ZooKeeper, real ZooKeeper."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerRegistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    MetadataRecord,
    PartitionChanged,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.metadata_store import (
    ClusterStore,
    ConnectionSuspended,
    Elected,
    Fenced,
    RegistrationRefused,
    StoreError,
)
from headrace.cluster.resources import topic_resource
from headrace.cluster.topology import BrokerRegistration, Endpoint, Partition
from headrace.zookeeper_server import ZooKeeperServer
from support.brokers.cluster_stores import (
    EmbeddedWorld,
    LinkedWorld,
    RealWorld,
    SimulatedWorld,
    World,
    until,
)
from support.brokers.security_records import SECURITY_RECORDS, SECURITY_REMOVALS

TOPIC_ID = b"t" * 16
STATE = Partition((1, 2, 3), (1, 2, 3), 1)


def broker(id_: int, *, life: int = 1, port: int = 9092) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", "localhost", port)
    return BrokerRegistration(id_, 0, (endpoint,), f"rack-{id_}", bytes([id_, life]) * 8)


def topic(name: str = "orders", partitions: int = 3, *, id_: bytes = TOPIC_ID) -> TopicCreated:
    return TopicCreated(name, id_, (STATE,) * partitions)


def changed(index: int, epoch: int) -> PartitionChanged:
    state = STATE._replace(leader=2, isr=(2, 3), leader_epoch=epoch, partition_epoch=epoch)
    return PartitionChanged(TOPIC_ID, index, state)


async def elected(store: ClusterStore, node_id: int = 1) -> Elected:
    controller = await store.elect(node_id)
    assert controller is not None
    return controller


class Called:
    """A callback that records its calls."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._event.set()

    async def once(self) -> None:
        async with asyncio.timeout(60):
            await self._event.wait()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(params=["memory", "file", "simulated", "real"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    match request.param:
        case "memory":
            return EmbeddedWorld()
        case "file":
            return EmbeddedWorld(tmp_path / "metadata.db")
        case "simulated":
            return SimulatedWorld()
        case _:
            return RealWorld(request.getfixturevalue("zookeeper").address)


@pytest.fixture(params=["simulated", "real"])
def linked(request: pytest.FixtureRequest) -> LinkedWorld:
    if request.param == "simulated":
        return SimulatedWorld()
    return RealWorld(request.getfixturevalue("zookeeper").address)


def run(world: World, test: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        try:
            await test
        finally:
            await world.close()

    world.run(main())


# -- registrations -------------------------------------------------------------------------------


def test_the_first_proposed_cluster_id_applies_to_all(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        assert await one.stored_cluster_id() == ""
        ids = await asyncio.gather(one.cluster_id("first"), two.cluster_id("second"))
        assert ids[0] == ids[1]
        assert await one.cluster_id("third") == ids[0] == await two.stored_cluster_id()

    run(world, test())


def test_the_stored_version_matches_the_metadata_and_only_grows(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        await one.cluster_id("first")
        await one.register(broker(1))
        versions = [await one.stored_version()]
        controller = await elected(one)
        versions.append((await one.load()).version)
        assert await two.stored_version() == versions[-1]
        await one.commit([topic()], controller)
        versions.append(await two.stored_version())
        assert (await one.load()).version == versions[-1]
        assert versions[0] <= versions[1] < versions[2]

    run(world, test())


def test_generated_broker_ids_are_unique(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        asked = [store.next_broker_id(1000) for store in (one, two) for _ in range(5)]
        ids = await asyncio.gather(*asked)
        assert sorted(ids) == list(range(1001, 1011))
        assert await one.next_broker_id(2000) > 2000

    run(world, test())


def test_a_registration_is_visible_unchanged_to_all(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        epoch = await one.register(broker(1), clean_shutdown_epoch=17)
        await two.register(broker(2))
        found = await two.registered()
        assert set(found) == {1, 2}
        assert found[1].broker == broker(1)._replace(epoch=epoch)
        assert found[1].clean_shutdown_epoch == 17
        assert found[2].clean_shutdown_epoch is None

    run(world, test())


def test_a_registration_ends_with_its_session_and_watchers_are_notified(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        await one.register(broker(1))
        told = Called()
        assert set(await two.registered(told)) == {1}
        assert not told.count
        await one.close()
        await told.once()
        assert not await two.registered()

    run(world, test())


def test_a_returning_broker_has_a_larger_epoch(world: World) -> None:
    """A restart between two reads never looks like the same incarnation (rule 6)."""

    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        first = await one.register(broker(1))
        told = Called()
        await two.registered(told)
        await one.close()
        again = await world.store("one again")
        second = await again.register(broker(1, life=2))
        assert second > first
        await told.once()
        assert (await two.registered())[1].broker.epoch == second

    run(world, test())


def test_registering_again_in_the_same_session_is_a_new_incarnation(world: World) -> None:
    async def test() -> None:
        one = await world.store("one")
        first = await one.register(broker(1))
        assert await one.register(broker(1, port=9093)) > first
        assert (await one.registered())[1].broker.endpoints[0].port == 9093

    run(world, test())


def test_an_id_used_by_another_live_process_is_rejected_with_a_reason(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        epoch = await one.register(broker(1), storage_id="disk-a")
        with pytest.raises(RegistrationRefused, match=r"broker 1 is already registered"):
            await two.register(broker(1, life=2), storage_id="disk-b", deadline_s=0.2)
        assert (await two.registered())[1].broker.epoch == epoch

    run(world, test())


def test_a_copy_of_a_live_brokers_disk_cannot_replace_the_broker(world: World) -> None:
    """Without this rule a cloned machine and the original would replace each other endlessly."""

    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        epoch = await one.register(broker(1), storage_id="disk-a")
        copy = broker(1, life=2, port=9093)
        with pytest.raises(RegistrationRefused, match=r"broker 1 is already registered"):
            await two.register(copy, storage_id="disk-a", deadline_s=0.2)
        assert (await two.registered())[1].broker.epoch == epoch

    run(world, test())


def test_a_fenced_broker_is_notified_and_a_newer_incarnation_is_not_affected(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        lost = Called()
        one.on_lost(lost)
        first = await one.register(broker(1))
        controller = await elected(two, 2)
        assert await two.fence(controller, 1, first)
        assert not await two.registered()
        await lost.once()
        second = await one.register(broker(1))
        assert second > first
        assert not await two.fence(controller, 1, first)
        assert set(await two.registered()) == {1}

    run(world, test())


def test_an_expired_session_loses_registration_and_election_and_can_register_again(
    world: World,
) -> None:
    """Rule 3: the process is notified, registers again and can be elected again."""

    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        lost, gone = Called(), Called()
        one.on_lost(lost)
        first = await one.register(broker(1))
        controller = await elected(one)
        await one.load()
        await two.controller(gone)
        await world.expire("one")
        await lost.once()
        await gone.once()
        assert not await two.registered()
        assert await two.controller() is None
        with pytest.raises(StoreError):
            await one.commit([topic()], controller)
        assert await one.register(broker(1)) > first
        later = await elected(one)
        assert later.controller_epoch > controller.controller_epoch
        assert "orders" not in (await one.load()).topics
        await one.commit([topic()], later)

    run(world, test())


def test_no_change_of_registrations_is_missed(world: World) -> None:
    """Watches are set before the read (rule 4): a read after each event sees the final state."""

    async def test() -> None:
        watcher = await world.store("watcher")
        seen: set[int] = set()

        async def watch() -> None:
            while seen != {100}:
                told = Called()
                seen.clear()
                seen.update(await watcher.registered(told))
                if seen != {100}:
                    await told.once()

        async def churn() -> None:
            for id_ in range(8):
                store = await world.store(f"churn-{id_}")
                await store.register(broker(id_))
                await store.close()
            last = await world.store("last")
            await last.register(broker(100))

        await asyncio.gather(watch(), churn())

    run(world, test())


# -- elections -----------------------------------------------------------------------------------


def test_exactly_one_of_many_candidates_is_elected(world: World) -> None:
    """Rule 1: there are never two controllers, and each election has its own epoch."""

    async def test() -> None:
        stores = [await world.store(f"store-{id_}") for id_ in range(5)]
        epochs = []
        for _ in range(3):
            elections = await asyncio.gather(*(s.elect(id_) for id_, s in enumerate(stores)))
            (controller,) = [found for found in elections if found is not None]
            epochs.append(controller.controller_epoch)
            for store in stores:
                assert await store.controller() == (
                    controller.controller_id,
                    controller.controller_epoch,
                )
            await stores[controller.controller_id].resign(controller)
            assert await stores[0].controller() is None
        assert epochs == sorted(set(epochs))

    run(world, test())


def test_a_waiting_broker_is_notified_when_there_is_no_controller(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        taken = Called()
        assert await two.controller(taken) is None
        controller = await elected(one)
        await taken.once()
        free = Called()
        assert await two.controller(free) == (1, controller.controller_epoch)
        assert await two.elect(2) is None
        await one.close()
        await free.once()
        assert (await elected(two, 2)).controller_epoch == controller.controller_epoch + 1

    run(world, test())


def test_a_crashed_controller_is_replaced_without_waiting_for_its_session(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        first = await elected(one)
        wrong = (1, first.controller_epoch - 1)
        assert await two.elect(2, instead_of=wrong) is None
        assert await two.elect(2, instead_of=(3, first.controller_epoch)) is None
        second = await two.elect(2, instead_of=(1, first.controller_epoch))
        assert second is not None
        assert second.controller_epoch == first.controller_epoch + 1
        assert await one.controller() == (2, second.controller_epoch)
        assert await one.elect(1, instead_of=(1, first.controller_epoch)) is None

    run(world, test())


def test_exactly_one_of_many_candidates_replaces_a_crashed_controller(world: World) -> None:
    async def test() -> None:
        stores = [await world.store(f"store-{id_}") for id_ in range(4)]
        crashed = await elected(stores[0], 0)
        held = (0, crashed.controller_epoch)
        tries = [s.elect(id_, instead_of=held) for id_, s in enumerate(stores) if id_]
        (controller,) = [found for found in await asyncio.gather(*tries) if found is not None]
        now = (controller.controller_id, crashed.controller_epoch + 1)
        assert await stores[0].controller() == now
        await stores[controller.controller_id].load()
        await stores[controller.controller_id].commit([topic()], controller)

    run(world, test())


def test_a_zombie_controller_changes_nothing(world: World) -> None:
    """Rule 2: the old controller is connected and does not know yet that it was replaced."""

    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        epoch = await one.register(broker(1))
        first = await elected(one)
        await one.load()
        await one.commit([topic()], first)
        second = await two.elect(2, instead_of=(1, first.controller_epoch))
        assert second is not None
        before = await two.load()
        with pytest.raises(Fenced):
            await one.commit([changed(0, 1)], first)
        with pytest.raises(Fenced):
            await one.fence(first, 1, epoch)
        await one.resign(first)
        assert await two.controller() == (2, second.controller_epoch)
        assert await two.load() == before
        await two.commit([changed(0, 1)], second)
        assert set(await two.registered()) == {1}

    run(world, test())


# -- metadata ------------------------------------------------------------------------------------


def everything(controller: Elected) -> list[MetadataRecord]:
    return [
        ClusterNamed("cluster"),
        ControllerElected(controller.controller_id, controller.controller_epoch),
        FeatureSet("transaction.version", 2),
        BrokerRegistered(broker(1)._replace(epoch=5)),
        topic("orders"),
        ConfigChanged(topic_resource("orders"), "retention.ms", "1000"),
        topic("gone", id_=b"g" * 16),
        changed(1, 1),
        TopicDeleted(b"g" * 16),
        ProducerIdsReserved(1000),
        *SECURITY_RECORDS,
    ]


def test_committed_metadata_is_loaded_by_every_broker(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        controller = await elected(one)
        image = await one.load()
        records = everything(controller)
        await one.commit(records, controller)
        image = image.apply(records)
        for store in (one, two):
            loaded = await store.load()
            assert loaded.at_version(0) == image.at_version(0)
            assert loaded.version >= image.version

    run(world, test())


def test_security_records_survive_a_change_of_the_controller(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        first = await elected(one)
        image = (await one.load()).apply(SECURITY_RECORDS)
        await one.commit(SECURITY_RECORDS, first)
        second = await two.elect(2, instead_of=(1, first.controller_epoch))
        assert second is not None
        _check_security(await two.load(), image)
        image = image.apply(SECURITY_REMOVALS)
        await two.commit(SECURITY_REMOVALS, second)
        with pytest.raises(Fenced):
            await one.commit(SECURITY_RECORDS, first)
        _check_security(await one.load(), image)
        _check_security(await two.load(), image)

    run(world, test())


def _check_security(loaded: MetadataImage, expected: MetadataImage) -> None:
    assert loaded.acls == expected.acls
    assert loaded.scram_credentials == expected.scram_credentials
    assert loaded.quotas == expected.quotas
    assert loaded.delegation_tokens == expected.delegation_tokens


def test_versions_only_grow_over_commits_controllers_and_loads(world: World) -> None:
    async def test() -> None:
        one, two = await world.store("one"), await world.store("two")
        versions = []
        image = MetadataImage()
        for round_, store in enumerate((one, two, one)):
            controller = await elected(store)
            image = await store.load()
            versions.append(image.version)
            for number in range(3):
                record = FeatureSet("f", 1 + round_ * 3 + number)
                await store.commit([record], controller)
                image = image.apply([record])
                versions.append(image.version)
            assert (await store.load()).version >= image.version
            await store.resign(controller)
        assert versions == sorted(set(versions))
        assert image.features == {"f": 9}

    run(world, test())


def test_metadata_must_be_loaded_before_it_is_changed(world: World) -> None:
    async def test() -> None:
        one = await world.store("one")
        controller = await elected(one)
        with pytest.raises(StoreError, match="loaded"):
            await one.commit([topic()], controller)
        await one.load()
        await one.commit([topic()], controller)

    run(world, test())


# -- connections that break ----------------------------------------------------------------------


def test_a_pending_commit_ends_when_the_store_closes(linked: LinkedWorld) -> None:
    """A process that exits, for example after a disk failure, must not retry it endlessly."""

    async def test() -> None:
        one = await linked.store("one")
        controller = await elected(one)
        await one.load()
        committing = asyncio.create_task(one.commit([topic()], controller))
        await asyncio.sleep(0)
        await one.close()
        with contextlib.suppress(StoreError):  # or the commit finished first
            await committing
        assert committing.done()

    run(linked, test())


def test_a_restarted_broker_replaces_its_own_registration_at_once(linked: LinkedWorld) -> None:
    """A restarted process finds the znode of its previous, unexpired session."""

    async def test() -> None:
        one = await linked.store("one")
        first = await one.register(broker(1), storage_id="disk-a")
        await linked.cut_off("one")
        again = await linked.store("one again")
        second = await again.register(broker(1, life=2), storage_id="disk-a", deadline_s=50)
        assert second > first

    run(linked, test())


def test_a_registration_waits_for_an_earlier_one_to_end(linked: LinkedWorld) -> None:
    async def test() -> None:
        one, two = await linked.store("one"), await linked.store("two")
        first = await one.register(broker(1))
        waiting = asyncio.create_task(two.register(broker(1, life=2), deadline_s=50))
        told = Called()
        await two.registered(told)
        await linked.expire("one")
        assert await waiting > first

    run(linked, test())


def test_a_session_ends_after_its_timeout_without_contact(linked: LinkedWorld) -> None:
    async def test() -> None:
        other = await linked.store("other")
        one = await linked.store("one", session_timeout_s=4)
        lost = Called()
        one.on_lost(lost)
        await one.register(broker(1))
        controller = await elected(one)
        await one.load()
        await linked.cut_off("one")

        async def gone() -> bool:
            return not await other.registered() and await other.controller() is None

        await until(gone, "the session ends")
        await elected(other, 2)
        await linked.heal("one")
        with pytest.raises(StoreError):
            await one.commit([topic()], controller)
        await lost.once()
        assert not (await other.load()).topics
        await one.register(broker(1))

    run(linked, test())


def test_a_broken_connection_loses_neither_session_nor_watches(linked: LinkedWorld) -> None:
    async def test() -> None:
        one, two = await linked.store("one"), await linked.store("two")
        lost = Called()
        one.on_lost(lost)
        epoch = await one.register(broker(1))
        controller = await elected(one)
        told = Called()
        await one.registered(told)
        await linked.drop("one")
        await told.once()  # read again: the state may have changed meanwhile

        async def back() -> bool:
            with contextlib.suppress(ConnectionSuspended):
                return (await one.registered())[1].broker.epoch == epoch
            return False

        await until(back, "the connection is back")
        await one.load()
        await one.commit([topic()], controller)
        assert "orders" in (await two.load()).topics
        assert not lost.count

    run(linked, test())


def test_a_commit_whose_connection_breaks_is_applied_once_or_reported_as_unknown(
    linked: LinkedWorld,
) -> None:
    """Rule 9. Connections are dropped at all moments of many commits."""

    async def test() -> None:
        one = await linked.store("one")
        controller = await elected(one)
        image = await one.load()
        done = False

        async def trouble() -> None:
            pause_s = 0.0001
            while not done:
                await asyncio.sleep(pause_s)
                await linked.drop("one")
                pause_s = 0.0001 if pause_s > 0.02 else pause_s * 1.3

        troubling = asyncio.create_task(trouble())
        for number in range(1, 41):
            # A topic created twice or only partly would be an error.
            record = topic(f"topic-{number}", id_=bytes([number]) * 16)
            try:
                await one.commit([record], controller)
            except ConnectionSuspended:
                break
            image = image.apply([record])
        done = True
        await troubling

        async def loads() -> bool:
            nonlocal image
            with contextlib.suppress(ConnectionSuspended):
                loaded = await one.load()
                assert loaded.topics == image.topics
                return True
            return False

        await until(loads, "it can be read again")

    run(linked, test())
