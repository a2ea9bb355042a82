"""Decisions of a controller whose term ends at the same time."""

import asyncio
from typing import cast

from headrace.broker.metadata.member_metadata import MemberMetadata
from headrace.cluster.controller_settings import ControllerSettings
from headrace.controller.active_controller import ActiveController, Decided
from headrace.controller.result import ControllerResult

VERSION = 5


class EndingController:
    """Commits one last decision; then another broker is elected."""

    is_store_reachable = True

    def __init__(self, metadata: MemberMetadata) -> None:
        self._metadata = metadata
        self.told: list[int] = []

    async def decide(self, decision: object) -> Decided[str]:
        self._metadata.active_controller = None
        return Decided(("done",), VERSION)

    async def until_propagated(self, version: int) -> None:
        self.told.append(version)


async def _unused(image: object, records: object) -> None:
    raise AssertionError


def test_a_committed_decision_is_answered_even_if_the_term_ends() -> None:
    """The decision is committed, so the client gets its result and not an error."""
    metadata = MemberMetadata(cast("ControllerSettings", None), _unused)
    active_controller = EndingController(metadata)
    metadata.active_controller = cast("ActiveController", active_controller)
    assert asyncio.run(metadata.decide(lambda _: ControllerResult((), ()))) == ("done",)
    assert active_controller.told == [VERSION]
