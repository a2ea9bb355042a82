"""How a cluster member handles brokers that seem to have crashed.

The controller fences them. Other brokers delay responses that would send clients to them. For a
while after they are gone, metadata responses still list them.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from headrace.broker.membership.process_death_probe import has_crashed
from headrace.broker.membership.suspected_brokers import SuspectedBrokers
from headrace.broker.metadata.member_metadata import MemberMetadata
from headrace.client.network.connection import Address
from headrace.cluster.topology import BrokerRegistration
from headrace.controller.active_controller import ActiveController

RECENTLY_FENCED_S: Final = 10.0
NEVER: Final = float("-inf")
MISSING_AFTER_S: Final = 0.3
"""By then a live broker has found a new controller; the others are probed."""


class FastFailureDetection:
    """Checks a broker whenever a connection to it ends, unless the detection is disabled."""

    def __init__(
        self,
        metadata: MemberMetadata,
        address_of: Callable[[int], Address | None],
        *,
        node_id: int,
        enabled: bool,
    ) -> None:
        self.enabled = enabled
        self.suspicions = SuspectedBrokers()
        self._metadata = metadata
        self._address_of = address_of
        self._node_id = node_id
        self._checks: dict[asyncio.Task[None], None] = {}
        self._live: frozenset[int] = frozenset()
        self._fenced_at: dict[int, float] = {}
        metadata.add_listener(self._note_fenced_brokers)

    def close(self) -> None:
        self.suspicions.close()
        for check in tuple(self._checks):
            check.cancel()

    # --- any member -----------------------------------------------------------------------------

    def connection_lost(self, broker_id: int) -> None:
        """Checks whether the process of a broker has died, after a connection to it has ended."""
        address = self._address_of(broker_id)
        if self.enabled and address is not None and self._is_live(broker_id):
            self.suspicions.suspect(
                broker_id, lambda: has_crashed(address, lambda: not self._is_live(broker_id))
            )

    async def is_dead(self, broker_id: int, has_returned: Callable[[], bool]) -> bool:
        """Whether the process of this broker, whose connection has ended, is dead."""
        address = self._address_of(broker_id)
        return self.enabled and address is not None and await has_crashed(address, has_returned)

    def recently_fenced(self) -> list[BrokerRegistration]:
        """Brokers that were fenced a moment ago.

        If one response tells librdkafka (2.x) of a new leader and omits the old one, it may lose
        the new leader while it removes the old one. It then waits a second before it asks again.
        """
        since = asyncio.get_running_loop().time() - RECENTLY_FENCED_S
        brokers = self._metadata.image.brokers
        return [
            brokers[id_] for id_, at in self._fenced_at.items() if at > since and id_ in brokers
        ]

    def _note_fenced_brokers(self) -> None:
        now = asyncio.get_running_loop().time()
        for id_, broker in self._metadata.image.brokers.items():
            if not broker.fenced:
                self._fenced_at.pop(id_, None)
                continue
            # A broker that was fenced before this one started no longer leads anything.
            self._fenced_at.setdefault(id_, now if id_ in self._live else NEVER)
            self.suspicions.clear(id_)
        self._live = self._metadata.image.live_ids

    def _is_live(self, broker_id: int) -> bool:
        known = self._metadata.image.brokers.get(broker_id)
        return known is not None and not known.fenced

    # --- the controller -------------------------------------------------------------------------

    def polls_ended(self, broker_id: int, broker_epoch: int) -> None:
        """Handles the end of the connection on which a broker polls."""
        active_controller = self._metadata.active_controller
        if active_controller is not None and self.enabled:
            self.connection_lost(broker_id)
            self._start_check(self._fence_if_dead(active_controller, broker_id, broker_epoch))

    def term_began(self, active_controller: ActiveController) -> None:
        if self.enabled:
            self._start_check(self._fence_missing(active_controller))

    async def _fence_missing(self, active_controller: ActiveController) -> None:
        """Checks brokers that never connected: they may have died with the last controller."""
        await asyncio.sleep(MISSING_AFTER_S)
        for broker in self._metadata.image.live_brokers():
            if broker.broker_id != self._node_id:
                self._start_check(
                    self._fence_if_dead(active_controller, broker.broker_id, broker.epoch)
                )

    async def _fence_if_dead(
        self, active_controller: ActiveController, broker_id: int, broker_epoch: int
    ) -> None:
        known = self._metadata.image.brokers.get(broker_id)
        if known is None or known.epoch != broker_epoch or known.fenced:
            return

        def has_returned() -> bool:
            return active_controller.is_over or active_controller.polls.is_polling(
                broker_id, broker_epoch
            )

        if not has_returned() and await self.is_dead(broker_id, has_returned):
            await active_controller.fence(broker_id, broker_epoch)

    def _start_check(self, check: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(check)
        self._checks[task] = None
        task.add_done_callback(lambda done: self._checks.pop(done, None))
