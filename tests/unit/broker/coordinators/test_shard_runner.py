"""Results that wait too long for their commit."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from headrace.broker.coordinators.shard_runner import ShardRunner, ShardRunnerOwner, _Uncommitted
from headrace.broker.runtime.timers import Timers
from headrace.clock import SystemClock
from headrace.records.codec import Codec
from headrace.replication.sole_leader import SoleLeader


class Answer:
    """A client that retries as soon as it gets its answer."""

    def __init__(self, runner: "ShardRunner[Any]") -> None:
        self._runner = runner
        self.answers: list[object] = []

    def complete(self, answer: object) -> None:
        self.answers.append(answer)
        late = cast("Any", Answer(self._runner))
        result = cast("Any", SimpleNamespace(answer=None))
        self._runner._uncommitted.append(_Uncommitted(9, result, late, float("inf")))


def test_every_late_commit_fails_even_if_its_client_retries_at_once() -> None:
    # A retry must not keep the other late commits from failing.
    async def story() -> None:
        timers = Timers(asyncio.get_running_loop(), SystemClock())
        owner = SimpleNamespace(
            timers=timers,
            flusher=None,
            codec=Codec.NONE,
            clock=SystemClock(),
            now_ms=lambda: 0,
            commit_timeout_s=1.0,
        )
        leader = SimpleNamespace(topic="t", index=0)
        runner: ShardRunner[Any] = ShardRunner(
            cast("Any", None), cast("SoleLeader", leader), cast("ShardRunnerOwner", owner)
        )
        waiting = [Answer(runner), Answer(runner)]
        for each in waiting:
            result = cast("Any", SimpleNamespace(answer=None))
            runner._uncommitted.append(_Uncommitted(5, result, cast("Any", each), 0.0))
        runner._fail_late_commits()
        assert [len(each.answers) for each in waiting] == [1, 1]
        timers.close()

    asyncio.run(story())
