"""An elected leader has all acknowledged records, even after settings or disks changed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topology import NO_LEADER
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from support.brokers.members import Members, run, until
from support.brokers.orders_topic import create, produce, values

TOPIC, BROKER = 2, 4
PATIENCE_MS = 2_000
WHOLE_CLUSTER = ""
DEFAULT_MIN = {"min.insync.replicas": "2"}
QUICK_LAG = {"replica.lag.time.max.ms": "600", "replica.fetch.wait.max.ms": "100"}


async def set_min_insync(members: Members, type_: int, name: str, value: str) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsAlterConfigsResource(
                resource_type=type_,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsAlterableConfig(name="min.insync.replicas", value=value)
                ],
            )
        ]
    )
    answer = await members.ask(3, request, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message


async def acknowledged(members: Members, at: int, value: bytes) -> None:
    """Retries until the record is accepted."""
    taken: list[bytes] = []

    async def once() -> bool:
        answer = await produce(members, at, value, patience_ms=PATIENCE_MS)
        if answer.error_code == ErrorCode.NONE:
            taken.append(value)
        return bool(taken)

    for _ in range(100):
        if await once():
            return
        await until(members.agree, "everybody knows")
    raise AssertionError(f"{value!r} is not taken")


def stop_copying(members: Members, id_: int) -> None:
    """The broker keeps running, and its replicas do not change."""
    fetchers = members.brokers[id_].replication._fetchers
    assert fetchers is not None
    fetchers.close()


async def _min_insync_is_lowered(tmp_path: Path, type_: int, name: str) -> None:
    """KIP-966 keeps 2 eligible: it left below the minimum. A lower minimum then allows writes."""
    async with Members(tmp_path, settings=DEFAULT_MIN | QUICK_LAG) as members:
        await create(members, [1, 2])
        assert (await produce(members, 1, b"before")).error_code == ErrorCode.NONE
        stop_copying(members, 2)
        await produce(members, 1, b"not acknowledged", patience_ms=PATIENCE_MS)
        await until(lambda: members.partition(3).isr == (1,), "2 is out of sync")
        assert members.partition(3).eligible_leaders == (2,)
        await set_min_insync(members, type_, name, "1")
        await acknowledged(members, 1, b"acknowledged")
        members.kill(1)
        await until(lambda: members.partition(3).leader != 1, "1 is gone")
        assert members.partition(3).leader == NO_LEADER  # 2 misses a record
        members.kill(2)
        await until(lambda: members.brokers[3].metadata.image.brokers[2].fenced, "2 is gone")
        await members.start(2)
        await members.start(1)
        await until(lambda: members.partition(3).isr == (1, 2), "both are in sync")
        assert values(members, 1) == values(members, 2)
        assert values(members, 1)[-1] == b"acknowledged"


def test_a_replica_missing_records_acknowledged_under_a_lower_minimum_is_not_elected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run(_min_insync_is_lowered(tmp_path, TOPIC, "orders"))
    expect_lines(caplog)


def expect_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The log tells the story: a lagging replica, a changed setting, a dead broker, no leader."""
    shrank = logged(caplog, "the ISR shrank")
    assert (shrank["topic"], shrank["partition"], shrank["replica"]) == ("orders", 0, 2)
    assert (shrank["isr"], shrank["lag_records"]) == ("1", 1)
    assert shrank["behind_ms"] > 600
    slow = logged(caplog, "slow request")
    assert (slow["api"], slow["client_id"]) == ("Produce", "a client")
    assert slow["ms"] >= PATIENCE_MS
    changed = logged(caplog, "changed a setting")
    assert (changed["principal"], changed["client_id"]) == ("User:ANONYMOUS", "a client")
    assert (changed["resource"], changed["setting"]) == ("TOPIC:orders", "min.insync.replicas")
    assert (changed["old"], changed["new"]) == ("(default)", "1")
    elections = logged(caplog, "leaders were elected", level="WARNING")
    assert (elections["cause"], elections["without_leader"]) == ("broker 1 left", 1)
    assert elections["offline"] == "orders-0"


def logged(
    caplog: pytest.LogCaptureFixture, sentence: str, level: str | None = None
) -> dict[str, Any]:
    """The fields of the first line with this sentence."""
    return next(
        record.__dict__
        for record in caplog.records
        if record.getMessage() == sentence and level in (None, record.levelname)
    )


def test_a_replica_missing_records_acknowledged_under_a_lower_default_is_not_elected(
    tmp_path: Path,
) -> None:
    run(_min_insync_is_lowered(tmp_path, BROKER, WHOLE_CLUSTER))


def test_a_leader_with_a_lower_local_minimum_does_not_acknowledge_unreplicated_records(
    tmp_path: Path,
) -> None:
    """Brokers restart one by one with a new default: leader and controller differ meanwhile."""

    async def test() -> None:
        async with Members(tmp_path, settings=DEFAULT_MIN) as members:
            await members.stop(1)
            await until(lambda: members.controller, "another controller is elected")
            await members.start(1, {"min.insync.replicas": "1"})
            assert members.controller != 1
            await create(members, [1, 2])
            assert (await produce(members, 1, b"before")).error_code == ErrorCode.NONE
            if members.controller == 2:
                await members.stop(2)
                await until(lambda: members.controller, "another controller is elected")
                await members.start(2)
                await until(lambda: members.partition(1).isr == (1, 2), "2 is in sync")
            members.kill(2)
            await until(lambda: members.partition(1).isr == (1,), "2 is out of sync")
            refused = await produce(members, 1, b"refused", patience_ms=PATIENCE_MS)
            assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    run(test())


def test_a_broker_with_an_empty_disk_is_not_elected_when_topics_flush_every_message(
    tmp_path: Path,
) -> None:
    """`flush.messages=1` protects a log from a crash, not from a replaced disk."""

    async def test() -> None:
        async with Members(tmp_path, settings=DEFAULT_MIN) as members:
            await create(members, [1, 2], {"flush.messages": "1"})
            assert (await produce(members, 1, b"acknowledged")).error_code == ErrorCode.NONE
            members.kill(2)
            await until(lambda: members.partition(3).isr == (1,), "2 is out of sync")
            members.kill(1)
            await until(lambda: members.partition(3).leader == NO_LEADER, "nobody leads")
            shutil.rmtree(tmp_path / "1")
            await members.start(1)
            await until(members.agree, "everybody knows")
            assert members.partition(3).leader == NO_LEADER
            await members.start(2)
            await until(lambda: set(members.partition(3).isr) == {1, 2}, "both are in sync")
            assert values(members, 1) == values(members, 2) == [b"acknowledged"]

    run(test())


def test_the_last_in_sync_replica_is_not_elected_with_an_empty_disk_while_others_have_logs(
    tmp_path: Path,
) -> None:
    """Its unreplicated records are lost with its disk. Records on other replicas must stay."""

    async def test() -> None:
        async with Members(tmp_path, settings={"min.insync.replicas": "1"}) as members:
            await create(members, [1, 2])
            assert (await produce(members, 1, b"on both")).error_code == ErrorCode.NONE
            members.kill(2)
            await until(lambda: members.partition(3).isr == (1,), "2 is out of sync")
            assert (await produce(members, 1, b"on 1 alone")).error_code == ErrorCode.NONE
            members.kill(1)
            await until(lambda: members.partition(3).leader == NO_LEADER, "nobody leads")
            shutil.rmtree(tmp_path / "1")
            await members.start(1)
            await until(members.agree, "everybody knows")
            assert members.partition(3).leader == NO_LEADER
            await members.start(2)
            await until(lambda: set(members.partition(3).isr) == {1, 2}, "both are in sync")
            assert values(members, 1) == values(members, 2) == [b"on both"]

    run(test())
