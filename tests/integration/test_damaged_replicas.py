"""A replica whose files are damaged: another leads, and the damaged one is copied again."""

from pathlib import Path

from headrace.protocol.errors import ErrorCode
from support.brokers.members import Members, run, until
from support.brokers.orders_topic import create, produce, values

SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "600000",
    "log.flush.offset.checkpoint.interval.ms": "100",
}
VALUES = [b"%04d" % number * 100 for number in range(50)]


def damage(directory: Path, at: float) -> None:
    """Changes the byte at a relative position of the log."""
    (segment,) = directory.glob("orders-0/*.log")
    data = bytearray(segment.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    segment.write_bytes(data)
    for index in directory.glob("orders-0/*.index"):
        index.unlink()  # the file is then verified instead of trusted


async def all_alike(
    members: Members, expected: list[bytes], ids: tuple[int, ...] = (1, 2, 3)
) -> None:
    await until(lambda: set(members.partition(1).isr) == {*ids}, "all are in sync")
    for id_ in ids:
        await until(lambda id_=id_: values(members, id_) == expected, f"{id_} has everything")


def test_a_damaged_follower_is_copied_again_from_its_last_intact_offset(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                assert (await produce(members, 1, value)).error_code == ErrorCode.NONE
            await members.stop(3)
            damage(tmp_path / "3", at=0.5)
            await members.start(3)
            assert (await produce(members, 1, b"more")).error_code == ErrorCode.NONE
            await all_alike(members, [*VALUES, b"more"])

    run(test())


def test_a_damaged_leader_hands_over_to_an_intact_replica(tmp_path: Path) -> None:
    """All crashed; the first to return is elected and finds damage in its log."""

    def flushed(members: Members) -> bool:
        logs = [broker.logs.get("orders", 0) for broker in members.brokers.values()]
        points = [
            tmp_path / str(id_) / "recovery-point-offset-checkpoint" for id_ in members.brokers
        ]
        text = [each.read_text() if each.exists() else "" for each in points]
        return all(log is not None for log in logs) and all(
            f"orders 0 {len(VALUES)}" in each for each in text
        )

    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members, configs={"flush.messages": "1"})
            for value in VALUES:
                assert (await produce(members, 1, value)).error_code == ErrorCode.NONE
            await until(lambda: flushed(members), "recovery points are written")
            for id_ in (1, 2, 3):
                members.kill(id_)
                members.sessions[id_].expire()
            damage(tmp_path / "1", at=0.5)
            await members.start(1)
            assert members.partition(1).leader == 1
            refused = await produce(members, 1, b"refused")
            assert refused.error_code != ErrorCode.NONE
            await members.start(2)
            await members.start(3)
            await until(lambda: members.partition(2).leader in (2, 3), "another leads")
            leader = members.partition(2).leader
            await until(lambda: len(members.partition(leader).isr) > 1, "two are in sync")
            assert (await produce(members, leader, b"more")).error_code == ErrorCode.NONE
            await all_alike(members, [*VALUES, b"more"])

    run(test())


def test_a_damaged_replica_eligible_for_election_is_copied_again(tmp_path: Path) -> None:
    """It left last and counts as complete, so it must report its damage."""

    async def test() -> None:
        async with Members(tmp_path, count=2, settings=SETTINGS) as members:
            await create(members, replicas=(1, 2))
            for value in VALUES:
                assert (await produce(members, 1, value)).error_code == ErrorCode.NONE
            await members.stop(2)
            await until(lambda: members.partition(1).eligible_leaders == (2,), "2 is eligible")
            damage(tmp_path / "2", at=0.5)
            await members.start(2)
            await all_alike(members, VALUES, (1, 2))
            assert (await produce(members, 1, b"more")).error_code == ErrorCode.NONE
            await all_alike(members, [*VALUES, b"more"], (1, 2))

    run(test())


def test_two_damaged_replicas_are_copied_again_from_the_third(tmp_path: Path) -> None:

    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            await create(members)
            for value in VALUES:
                assert (await produce(members, 1, value)).error_code == ErrorCode.NONE
            await members.stop(3)
            await members.stop(2)
            await until(lambda: members.partition(1).isr == (1,), "1 is alone")
            damage(tmp_path / "2", at=0.5)
            damage(tmp_path / "3", at=0.7)
            await members.start(3)
            await members.start(2)
            await all_alike(members, VALUES)

    run(test())
