"""`headrace demo`: a broker, orders, and a Spark pipeline that writes them into a table.

Everything runs on this machine. The broker is `headrace up` with the same options. The pipeline
runs from a spec that is kept beside the table. The demo first removes the files and topics of an
earlier demo. At the end it compares the table and the dead letters with the orders, record by
record.
"""

import importlib.util
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from headrace.cli import command
from headrace.cli.broker.banner import NOWHERE
from headrace.cli.broker.broker_commands import up_options
from headrace.cli.broker.broker_process import BrokerEnded, ChildBroker
from headrace.cli.broker.options import UP_OPTIONS, UpOptions
from headrace.cli.error_messages import refused
from headrace.cli.exit_codes import NOT_FOUND_CODES, CommandFailed, ExitCode
from headrace.cli.output import Format, Output, remark, write
from headrace.cli.pipeline import demo_screen
from headrace.cli.profiles import SERVERS
from headrace.cli.session import DEFAULT_TIMEOUT_S, Session
from headrace.cli.sigterm import Terminated, stoppable
from headrace.client.admin.groups import delete_groups, list_groups
from headrace.client.admin.topics import NewTopic, create_topics, delete_topics, list_topics
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal

ORDERS: Final = 20_000
ORDERS_PER_SECOND: Final = 1_000
MAX_ORDERS: Final = 10_000_000
SEED: Final = 9092

Orders = Annotated[
    int,
    typer.Option(
        "--orders",
        metavar="N",
        min=1,
        max=MAX_ORDERS,
        help="Number of orders to send, at most 10,000,000.",
    ),
]
Exit = Annotated[bool, typer.Option("--exit", help="Stop the broker when the demo ends.")]


def register(app: typer.Typer, up_parameters: Sequence[Parameter]) -> None:
    """Adds the command. It takes the options of `up` and two more."""

    def demo(**values: object) -> None:
        orders, leave = values.pop("orders"), values.pop("exit")
        assert isinstance(orders, int)
        options = up_options(values)
        raise typer.Exit(command.guard(lambda: run(options, orders, stays=not leave)))

    own = [
        Parameter("orders", Parameter.KEYWORD_ONLY, default=ORDERS, annotation=Orders),
        Parameter("exit", Parameter.KEYWORD_ONLY, default=False, annotation=Exit),
    ]
    demo.__signature__ = Signature([*own, *up_parameters])  # type: ignore[attr-defined]
    summary = "Start a broker and a Spark pipeline that writes orders into a Delta table."
    app.command("demo", help=summary)(demo)


def run(options: UpOptions, orders: int, *, stays: bool = True) -> ExitCode | None:
    """Runs the demo. If Spark cannot run here, starts only the broker."""
    missing = what_is_missing()
    if missing is not None:
        remark(f"starting only the broker, without the demo: {missing}")
        from headrace.cli.broker.up import up

        return ExitCode(up(options))
    try:
        with (
            _signals(),
            ChildBroker(words_of(options)) as broker,
            _demo_location(options) as location,
        ):
            if not _run_demo(broker.servers, location, orders):
                return ExitCode.INTERRUPTED
            return _wait_for_broker(broker) if stays else None
    except BrokerEnded as error:
        code = error.code  # the broker has printed the reason
        return ExitCode(code) if code in set(ExitCode) else ExitCode.ERROR


def what_is_missing() -> str | None:
    """Returns the reason why Spark cannot run here, in one sentence. Returns None if it can."""
    for name in ("pyspark", "deltalake", "pyarrow", "numba", "pydantic"):
        if importlib.util.find_spec(name) is None:
            return "pipelines need more packages: pip install 'headrace[pipeline]'"
    from headrace.pipeline.spark.session import NoSpark, check_java

    try:
        check_java()
    except NoSpark as error:
        return str(error)
    return None


def words_of(options: UpOptions) -> list[str]:
    """Returns the options as arguments of `headrace up`."""
    words: list[str] = []
    for option in UP_OPTIONS:
        value = getattr(options, option.name)
        if option.kind == "flag":
            words += [option.flag] if value else []
        elif option.kind == "repeated":
            words += [f"{option.flag}={each}" for each in value]
        elif value is not None:
            words += [f"{option.flag}={value}"]
    return words


def _wait_for_broker(broker: ChildBroker) -> ExitCode | None:
    """Returns when Ctrl-C or a signal stops the demo. Raises if the broker ends first."""
    _print(demo_screen.STAYS)
    try:
        code = broker.wait()
    except KeyboardInterrupt:
        _print("Stopping.\n")
        return None
    raise CommandFailed(f"the broker ended with exit code {code}")


class DemoLocation(NamedTuple):
    """The directory of the demo's files, and a description of where the topics are stored."""

    folder: Path
    topics: str


@contextmanager
def _demo_location(options: UpOptions) -> Iterator[DemoLocation]:
    """Yields a directory beside the broker's data.

    For an ephemeral broker, it is a temporary directory that is removed at the end.
    """
    if options.ephemeral:
        with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
            yield DemoLocation(Path(folder), NOWHERE)
        return
    from headrace.cli.broker.up import settings_of

    data = settings_of(options, None).log_dirs[0]
    yield DemoLocation(Path(f"{data}-demo"), data)


def _run_demo(servers: str, location: DemoLocation, orders: int) -> bool:
    """Returns whether the demo finished. False means that it was stopped early."""
    from headrace.pipeline.demo.demo_result import outcome
    from headrace.pipeline.demo.demo_run import DemoFailed, DemoProgress
    from headrace.pipeline.demo.demo_run import run as run_pipeline
    from headrace.pipeline.demo.orders import orders as make_orders
    from headrace.pipeline.demo.spec import DEAD_LETTER_TOPIC, SPEC_FILE, TABLE, TOPIC
    from headrace.pipeline.demo.traffic import Traffic

    folder = location.folder
    begin_anew(servers, folder)
    width = demo_screen.text_width()
    _print(
        demo_screen.begin(servers, location.topics, orders, TOPIC, folder / SPEC_FILE, width=width)
    )
    began = datetime.now(UTC).replace(microsecond=0)
    traffic = Traffic(
        servers,
        TOPIC,
        make_orders(orders, SEED, began),
        orders_per_second=ORDERS_PER_SECOND,
        backlog=orders // 2,
    )
    progress = DemoProgress()
    traffic.start()
    try:
        with demo_screen.watching(traffic, progress) as watch:
            if not run_pipeline(folder / SPEC_FILE, servers, traffic, progress, watch):
                return False
    except DemoFailed as error:
        raise CommandFailed(str(error)) from error
    finally:
        traffic.stop()
    found = outcome(folder / TABLE, servers, DEAD_LETTER_TOPIC, traffic.delivered, traffic.broken)
    if found.differences:
        raise CommandFailed(
            f"table and dead letters do not match the orders: {'; '.join(found.differences)}"
        )
    _print(demo_screen.end(found, servers, folder, width=demo_screen.text_width()))
    return True


def begin_anew(servers: str, folder: Path) -> None:
    """Removes the topics and files of an earlier demo, and nothing else."""
    from headrace.pipeline.demo.spec import CHECKPOINT, SPEC, SPEC_FILE, TABLE

    Session({SERVERS: servers}, Output(Format.TEXT)).run(_recreate_topics)
    for name in (TABLE, CHECKPOINT):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SPEC_FILE).write_text(SPEC, encoding="utf-8")


async def _recreate_topics(client: ClusterClient) -> None:
    from headrace.pipeline.demo.spec import DEAD_LETTER_TOPIC, PARTITIONS, PIPELINE, TOPIC

    timeout_s = DEFAULT_TIMEOUT_S
    answers: dict[str, Refusal | None] = {}
    listed = (await list_groups(client, timeout_s=timeout_s)).complete()
    groups = [each.group_id for each in listed]
    groups = [name for name in groups if name == PIPELINE or name.startswith(f"{PIPELINE}.")]
    if groups:
        answers |= await delete_groups(client, groups, timeout_s=timeout_s)
    topics = [topic.name for topic in await list_topics(client, timeout_s=timeout_s)]
    # The ledger of replayed dead letters has a name that starts with their topic's name.
    topics = [name for name in topics if name == TOPIC or name.startswith(DEAD_LETTER_TOPIC)]
    if topics:
        answers |= await delete_topics(client, topics, timeout_s=timeout_s)
    answers = {
        name: why
        for name, why in answers.items()
        if why is not None and why.code not in NOT_FOUND_CODES
    }
    new = NewTopic(TOPIC, PARTITIONS, configs={"retention.ms": "-1"})
    answers |= await create_topics(client, [new], timeout_s=timeout_s)
    for name, why in answers.items():
        if why is not None:
            raise refused(f"the demo's {name}", why)


def _print(text: str) -> None:
    write(text)
    sys.stdout.flush()


@contextmanager
def _signals() -> Iterator[None]:
    """Closing the terminal ends the demo as Ctrl-C does: cleanly, together with its broker."""

    def stop(number: int, frame: object) -> None:
        raise Terminated

    with stoppable():
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # started with `nohup`
        before = None if ignored else signal.signal(signal.SIGHUP, stop)
        try:
            yield
        finally:
            if before is not None:
                signal.signal(signal.SIGHUP, before)
