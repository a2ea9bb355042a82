"""A candidate controller, and failures before its first decision."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import pytest

from headrace.broker.membership.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from headrace.broker.membership.controller_election import RETRY_S
from headrace.broker.membership.peers import Peers
from headrace.broker.metadata.member_metadata import MemberMetadata
from headrace.clock import SystemClock
from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.listeners import Listener
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.metadata_store import Elected, Registration
from headrace.cluster.stores.embedded import EmbeddedCluster, EmbeddedStore
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.cluster.topology import BrokerRegistration
from headrace.controller.active_controller import ActiveController
from headrace.controller.metadata_controller import MetadataController
from headrace.protocol.struct import Struct

ME = 1
DEADLINE_S = 10.0
SETTINGS = ControllerSettings(node_id=ME)


class TroubledStore(EmbeddedStore):
    """Fences the controller at the first commits; reads of registrations may fail."""

    def __init__(self, cluster: EmbeddedCluster, *, elections_lost: int = 0) -> None:
        super().__init__(cluster)
        self.elected_at: list[float] = []
        self.looks_fail = 0  # number of the next reads that fail
        self._elections_lost = elections_lost

    async def elect(
        self, node_id: int, *, instead_of: tuple[int, int] | None = None
    ) -> Elected | None:
        self.elected_at.append(SystemClock().monotonic())
        return await super().elect(node_id, instead_of=instead_of)

    async def commit(self, records: Sequence[MetadataRecord], elected: Elected) -> None:
        if self._elections_lost:
            self._elections_lost -= 1
            await self.resign(elected)
        await super().commit(records, elected)

    async def registered(
        self, changed: Callable[[], None] | None = None
    ) -> Mapping[int, Registration]:
        if self.looks_fail:
            self.looks_fail -= 1
            raise RuntimeError("a recheck_registrations that fails")
        return await super().registered(changed)


async def _unused(*_: object) -> None:
    raise AssertionError


async def _answer(_request: Struct) -> Struct:
    raise AssertionError


def member_of(store: TroubledStore) -> BrokerLifecycle:
    metadata = MemberMetadata(SETTINGS, _unused)

    def make_active_controller(elected: Elected) -> ActiveController:
        return ActiveController(
            store, elected, MetadataController(metadata.image, SETTINGS, Random(1)), metadata
        )

    return BrokerLifecycle(
        store,
        metadata,
        Peers(ME, lambda _: None),
        make_active_controller,
        _answer,
        node_id=ME,
        listener=Listener("PLAINTEXT", "", 0, "PLAINTEXT"),
        detect_crashes=False,
    )


@asynccontextmanager
async def started(store: TroubledStore) -> AsyncIterator[BrokerLifecycle]:
    await store.open()
    membership = member_of(store)
    broker = BrokerRegistration(ME, -1, (), incarnation_id=b"i" * 16)
    cluster_id = await store.cluster_id("c" * 22)
    async with asyncio.timeout(DEADLINE_S):
        await membership.start(BrokerIdentity(broker, cluster_id=cluster_id))
        try:
            yield membership
        finally:
            await membership.stop()
            await store.close()


def a_cluster() -> EmbeddedCluster:
    return EmbeddedCluster(SqliteStore(IN_MEMORY))


async def elected_controller(
    membership: BrokerLifecycle, instead_of: ActiveController | None
) -> ActiveController:
    while (elected := membership.active_controller) is None or elected is instead_of:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return elected


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def test_an_election_lost_before_the_term_starts_is_not_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The session ends at the moment of the first decision.
    caplog.set_level(logging.INFO, "headrace")

    async def test() -> None:
        store = TroubledStore(a_cluster(), elections_lost=1)
        async with started(store) as membership:
            await membership.joined()
            assert len(store.elected_at) == 2

    asyncio.run(test())
    assert failures(caplog) == []
    assert any("lost the controller election" in each for each in caplog.messages)


def test_a_member_that_keeps_failing_backs_off_from_elections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every attempt is an election that notifies all members, and loads all metadata."""

    async def test() -> None:
        store = TroubledStore(a_cluster())
        store.looks_fail = 4  # each ends an attempt to begin a term
        async with started(store) as membership:
            await membership.joined()
            times = store.elected_at
            pauses_s = [later - earlier for earlier, later in pairwise(times)]
            assert len(pauses_s) == 4
            for count, pause_s in enumerate(pauses_s):
                assert pause_s >= RETRY_S * 2**count

    asyncio.run(test())
    assert failures(caplog) == [
        f"following the controller failed, retrying in {RETRY_S * 2**count:g} s"
        for count in range(4)
    ]


def test_a_controller_that_cannot_read_the_registrations_resigns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        store = TroubledStore(a_cluster())
        async with started(store) as membership:
            first = await elected_controller(membership, instead_of=None)
            store.looks_fail = 1
            first.recheck_registrations()
            await first.until_term_ends()
            await elected_controller(membership, instead_of=first)

    asyncio.run(test())
    assert failures(caplog) == ["unexpected error in the controller; its term ends"]
