"""Executes a reassignment: shows the plan, starts the moves and watches them."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from headrace.cli.cluster.reassignment_file import plan_facts
from headrace.cli.cluster.status import Overview
from headrace.cli.error_messages import sentence
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.output import Block, Format, Table, code_of, counted, remark
from headrace.cli.session import Session
from headrace.cli.units import byte_size
from headrace.client.admin.elections import ElectionType, elect_leaders
from headrace.client.admin.reassignments import Move, alter_reassignments, list_reassignments
from headrace.client.admin.throttles import UNREACHABLE, clear_throttle, set_throttle
from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition
from headrace.operations.reassignment_plan import PlannedMove, Replicas, broker_totals
from headrace.operations.reassignment_progress import copied, leaders_of
from headrace.protocol.errors import ErrorCode

POLL_S: Final = 0.5
REMARK_S: Final = 10.0  # between two progress remarks, without a terminal
STILL_MOVING: Final = (
    "the partitions keep moving; headrace cluster reassign --status shows their progress, "
    "--cancel cancels the moves"
)


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan in its printed form."""

    plan: Mapping[str, object]
    blocks: Sequence[Block]

    def facts(self, *, executed: bool) -> dict[str, object]:
        return {"executed": executed, **self.plan}


class ReassignJob:
    """One plan: shown, started and watched."""

    def __init__(self, session: Session, rate: int | None, wait: bool) -> None:
        self._session = session
        self._timeout_s = session.timeout_s
        self._rate = rate
        self._wait = wait
        self.begun = False

    async def describe(
        self,
        client: ClusterClient,
        overview: Overview,
        now: Mapping[TopicPartition, Replicas],
        changes: Sequence[PlannedMove],
    ) -> PlanView:
        """The changes of the plan, and the bytes to copy."""
        sizes = await self._partition_sizes(client, overview, changes)
        to_copy = sum(len(each.copies) * sizes[each.partition] for each in changes)
        after = {**now, **{each.partition: each.after for each in changes}}
        brokers = _broker_facts(overview, now, after)
        plan = {
            "bytes_to_copy": to_copy,
            "moves": [_change_facts(each) for each in changes],
            "brokers": brokers,
            "plan": plan_facts({each.partition: each.after for each in changes}),
        }
        return PlanView(plan, _plan_blocks(brokers, changes, to_copy))

    async def _partition_sizes(
        self, client: ClusterClient, overview: Overview, changes: Sequence[PlannedMove]
    ) -> dict[TopicPartition, int]:
        moving = {each.partition: () for each in changes if each.copies}
        leaders = {each: info.leader for each, info in overview.partitions()}
        found = await copied(client, moving, leaders, timeout_s=self._timeout_s)
        return {each.partition: 0 for each in changes} | {e: of.of for e, of in found.items()}

    async def carry_out(self, client: ClusterClient, changes: Sequence[PlannedMove]) -> ExitCode:
        if self._rate is not None:
            await self._set_throttle(client, changes)
        self.begun = True
        outcomes = await alter_reassignments(
            client, {each.partition: each.after for each in changes}, timeout_s=self._timeout_s
        )
        failed = {each: why for each, why in outcomes.items() if why is not None}
        for each, why in failed.items():
            remark(f"{each}: {sentence(why)}")
        started = [each for each in changes if each.partition not in failed]
        if self._wait and started:
            await self._watch_moves(client, started)
            await self._finish_moves(client, started)
        elif started:
            self.remark_still_moving()
        return code_of(len(changes), list(failed.values()))

    def remark_still_moving(self) -> None:
        limit = "; when they have moved, --unthrottle removes the limit"
        remark(STILL_MOVING + (limit if self._rate is not None else ""))

    async def _set_throttle(self, client: ClusterClient, changes: Sequence[PlannedMove]) -> None:
        assert self._rate is not None
        moves = {each.partition: (each.before, each.after) for each in changes}
        done = await set_throttle(client, moves, self._rate, timeout_s=self._timeout_s)
        for resource, why in done.items():
            if why is not None and why.code is UNREACHABLE:
                remark(
                    f"broker {resource.name} gets no limit, because it does not answer: "
                    f"{why.message}; if it returns during the move, it copies without a limit"
                )
            elif why is not None:
                raise CommandFailed(
                    f"cannot set a limit on {resource.name}: {sentence(why)}; nothing was moved"
                )

    async def _watch_moves(self, client: ClusterClient, changes: Sequence[PlannedMove]) -> None:
        """Returns when all partitions have moved."""
        total = len(changes)
        loop = asyncio.get_running_loop()
        said = loop.time()
        copying = {each.partition: each.copies for each in changes}
        with _progress_bar(total, shown=self._session.output.form is Format.TEXT) as show_progress:
            while True:
                left = await list_reassignments(client, list(copying), timeout_s=self._timeout_s)
                text = f"{total - len(left)} of {total} partitions moved"
                if left:
                    await client.refresh(sorted({e.topic for e in left}), timeout_s=self._timeout_s)
                    text += f", {await self._percent_copied(client, left)} % copied"
                if not show_progress(total - len(left), text) and loop.time() - said > REMARK_S:
                    said = loop.time()
                    remark(text)
                if not left:
                    return
                await asyncio.sleep(POLL_S)

    async def _percent_copied(
        self, client: ClusterClient, left: Mapping[TopicPartition, Move]
    ) -> int:
        moves = {each: move.adding for each, move in left.items()}
        leaders = leaders_of(client, left)
        progress = await copied(client, moves, leaders, timeout_s=self._timeout_s)
        whole = sum(each.of for each in progress.values())
        return 100 if not whole else sum(each.bytes for each in progress.values()) * 100 // whole

    async def _finish_moves(self, client: ClusterClient, changes: Sequence[PlannedMove]) -> None:
        """Removes the limits of the move, and elects the preferred replicas of the plan."""
        if self._rate is not None:
            brokers = {broker for each in changes for broker in (*each.before, *each.after)}
            topics = {each.partition.topic for each in changes}
            done = await clear_throttle(
                client, sorted(brokers), sorted(topics), timeout_s=self._timeout_s
            )
            for resource, why in done.items():
                if why is not None:
                    remark(
                        f"the limit of {resource.name} was not removed: {sentence(why)}; "
                        "headrace cluster reassign --unthrottle removes it"
                    )
        moved = [each.partition for each in changes]
        outcomes = await elect_leaders(
            client, ElectionType.PREFERRED, moved, timeout_s=self._timeout_s
        )
        for each, why in outcomes.items():
            if why is not None and why.code is not ErrorCode.ELECTION_NOT_NEEDED:
                remark(f"{each} is not led by its preferred replica yet: {sentence(why)}")
        remark(f"moved {counted(len(changes), 'partition')}")


def _change_facts(change: PlannedMove) -> dict[str, object]:
    return {
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "before": list(change.before),
        "after": list(change.after),
        "copies_to": list(change.copies),
    }


def _broker_facts(
    overview: Overview,
    now: Mapping[TopicPartition, Replicas],
    after: Mapping[TopicPartition, Replicas],
) -> list[dict[str, object]]:
    held_now, led_now = broker_totals(now)
    held_after, led_after = broker_totals(after)
    known = {broker.id for broker in overview.cluster.brokers}
    return [
        {
            "id": broker,
            "replicas_before": held_now[broker],
            "replicas_after": held_after[broker],
            "preferred_before": led_now[broker],
            "preferred_after": led_after[broker],
        }
        for broker in sorted(known | held_now.keys() | held_after.keys())
    ]


def _plan_blocks(
    brokers: Sequence[Mapping[str, object]], changes: Sequence[PlannedMove], to_copy: int
) -> list[Block]:
    if not changes:
        return ["nothing to move: the partitions are already on the planned brokers"]
    copies = sum(len(each.copies) for each in changes)
    summary = (
        f"{counted(len(changes), 'partition')} to change, "
        f"{counted(copies, 'replica')} to copy ({byte_size(to_copy)})."
    )
    return [
        Table(
            ("TOPIC", "PARTITION", "BEFORE", "AFTER", "COPIED TO"),
            [(*each.partition, each.before, each.after, each.copies) for each in changes],
        ),
        Table(
            ("BROKER", "REPLICAS", "AFTER", "PREFERRED LEADER", "AFTER"),
            [tuple(each.values()) for each in brokers],
        ),
        summary,
    ]


ShowProgress = Callable[[int, str], bool]
"""Shows how many partitions have moved; returns whether there is a bar."""


@contextmanager
def _progress_bar(total: int, *, shown: bool) -> Iterator[ShowProgress]:
    """Shows a bar while the block runs, if stderr is a terminal."""
    if not shown or not sys.stderr.isatty():
        yield lambda done, text: False
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def show_progress(done: int, text: str) -> bool:
            bar.update(task, completed=done, description=text)
            return True

        yield show_progress
