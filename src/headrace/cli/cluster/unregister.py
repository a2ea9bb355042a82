"""`headrace cluster unregister`: removes the registration of a broker that will not return."""

from collections import Counter
from typing import Annotated, Final

import typer

from headrace.cli.cluster.status import Overview, take_overview
from headrace.cli.command import command
from headrace.cli.confirmation import EXECUTION_PANEL, Execute, is_approved
from headrace.cli.error_messages import refused
from headrace.cli.exit_codes import CommandFailed
from headrace.cli.output import Fields, counted, remark
from headrace.cli.session import Session
from headrace.client.admin.brokers import unregister_broker
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal

SHOWN_TOPICS: Final = 3

Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Unregister a broker that still holds replicas; their partitions stay "
        "under-replicated.",
        rich_help_panel=EXECUTION_PANEL,
    ),
]


def register(app: typer.Typer) -> None:
    """Adds `unregister`."""

    @command(app, "unregister")
    def unregister(
        session: Session,
        broker: Annotated[
            int,
            typer.Argument(metavar="BROKER", min=0, help="Id of the broker.", show_default=False),
        ],
        force: Force = False,
        execute: Execute = False,
    ) -> None:
        """Remove the registration of a broker that will not return."""

        async def inspect(client: ClusterClient) -> Overview:
            return await take_overview(client, timeout_s=session.timeout_s)

        overview = session.run(inspect)
        held = replicas_of(overview, broker)
        if held and not force:
            raise CommandFailed(refusal_text(overview, broker, held))
        if held:
            remark(
                f"broker {broker} still holds {counted(held.total(), 'replica')}; their partitions "
                "stay under-replicated until headrace cluster reassign moves them"
            )
        plan: dict[str, object] = {
            "broker": broker,
            "status": "would unregister",
            "replicas": held.total(),
        }
        fields = Fields(
            [("BROKER", broker), ("STATE", state(overview, broker)), ("REPLICAS", held.total())]
        )
        if not is_approved(session.output, execute, f"unregister broker {broker}", plan, fields):
            return

        async def work(client: ClusterClient) -> Refusal | None:
            return await unregister_broker(client, broker, timeout_s=session.timeout_s)

        why = session.run(work)
        if why is not None:
            raise refused(f"broker {broker}", why)
        facts = {"broker": broker, "status": "unregistered"}
        session.output.show(facts, f"unregistered broker {broker}")


def state(overview: Overview, broker: int) -> str | None:
    """`up` or `down`; None if the cluster does not list the broker."""
    found = next((each for each in overview.cluster.brokers if each.id == broker), None)
    if found is None:
        return "down" if broker in overview.loads else None
    return "down" if found.fenced else "up"


def replicas_of(overview: Overview, broker: int) -> Counter[str]:
    """How many replicas of each topic the broker holds."""
    return Counter(each.topic for each, info in overview.partitions() if broker in info.replicas)


def refusal_text(overview: Overview, broker: int, held: Counter[str]) -> str:
    """Why the broker is not unregistered, and what to do first."""
    largest = [f"{topic} ({count})" for topic, count in held.most_common(SHOWN_TOPICS)]
    more = len(held) - len(largest)
    topics = ", ".join(largest) + (f" and {counted(more, 'more topic')}" if more else "")
    sole = [each for each, info in overview.partitions() if set(info.isr) == {broker}]
    danger = (
        f"; it is the last in-sync replica of {counted(len(sole), 'partition')}, whose records "
        "would be lost"
        if sole
        else ""
    )
    others = [each.id for each in overview.cluster.live if each.id != broker]
    move = ",".join(map(str, others)) or "BROKERS"
    return (
        f"broker {broker} still holds {counted(held.total(), 'replica')} of topics {topics}"
        f"{danger}. Move them first: headrace cluster reassign --to {move} --execute. "
        "--force unregisters it all the same"
    )
