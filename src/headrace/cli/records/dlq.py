"""`headrace dlq`: list, show and replay the dead letters of pipelines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli import completion
from headrace.cli.command import command
from headrace.cli.confirmation import Execute, is_approved
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.options import name_argument
from headrace.cli.output import Block, Counter, Fields, Table, counted, progress, remark
from headrace.cli.session import Session, find_topics

if TYPE_CHECKING:
    from headrace.pipeline.dead_letters.dead_letter_reader import Letter
    from headrace.pipeline.dead_letters.error_groups import ErrorGroup
    from headrace.pipeline.dead_letters.headers import Facts as LetterFacts
    from headrace.pipeline.dead_letters.python_fix import DraftRecord, Fix, NotFixed
    from headrace.pipeline.dead_letters.replay import ReplayResult

app = typer.Typer(help="List, show and replay the dead letters of pipelines.", no_args_is_help=True)

INSTALL: Final = "dead letters need more packages: pip install 'headrace[pipeline]'"
MAX_SHOWN: Final = 200
"""The maximum length of a value in a table, in characters."""
PEEKED: Final = 100
"""If none of this many first records is a dead letter, the topic is not a dead-letter topic."""

_NONE: Final = "no dead letter in {}"
_NO_MATCH: Final = " matches --where"

Topic = Annotated[
    str,
    name_argument("TOPIC", "Name of the dead-letter topic.", completion.topics),
]
Where = Annotated[
    list[str],
    typer.Option(
        "--where",
        metavar="CONDITION",
        help='Select dead letters, such as "error = NotJson and source.offset >= 100". Fields: '
        "error, message, pipeline, source.topic, source.partition, source.offset, source.time, "
        "source.file, source.line, source.row, source.version, time, partition, offset, batch, "
        "schema, attempts. The operator ~ matches a regular expression; repeatable.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Maximum number of dead letters.")
]


@contextmanager
def _pipeline_errors() -> Iterator[None]:
    """Turns errors of the pipeline modules into `CommandFailed`."""
    try:
        from headrace.pipeline.batch.transform_error import TransformError
        from headrace.pipeline.dead_letters.filter import BadFilter
        from headrace.pipeline.producer import ProducerFailed
        from headrace.pipeline.producer.settings import BadSetting
        from headrace.pipeline.source.settings import ReadFailed
        from headrace.pipeline.spark.session import NoSpark
        from headrace.pipeline.spec.select import NotASelect
    except ModuleNotFoundError as error:
        raise CommandFailed(f"{INSTALL} ({error})") from None
    try:
        yield
    except (BadFilter, BadSetting, TransformError, NotASelect) as error:
        raise usage(str(error)) from error
    except (ProducerFailed, ReadFailed, NoSpark) as error:
        raise CommandFailed(str(error)) from error


@command(app, "list")
def list_(
    session: Session,
    topic: Topic,
    where: Where = [],
    samples: Annotated[
        int,
        typer.Option(
            "--samples", metavar="N", min=0, help="Number of records to show for each error."
        ),
    ] = 1,
) -> None:
    """List dead letters by error, with their number and how many were replayed."""
    with _pipeline_errors():
        from headrace.pipeline.dead_letters.error_groups import grouped

        letters, is_replayed = _select_letters(session, topic, where)
        groups = grouped(letters, is_replayed, samples)
    rows = [
        (
            group.count,
            group.replayed,
            group.error,
            group.pattern,
            group.source,
            group.pipeline,
            _utc_text(group.last_ms),
        )
        for group in groups
    ]
    blocks: list[Block] = [
        Table(("COUNT", "REPLAYED", "ERROR", "MESSAGE", "SOURCE", "PIPELINE", "LAST"), rows)
    ]
    blocks.extend(_sample_text(group) for group in groups if group.samples)
    session.output.show([_group_facts(group) for group in groups], *blocks)
    if not groups:
        remark(_NONE.format(topic) + (_NO_MATCH if where else ""))


@command(app, "show")
def show(session: Session, topic: Topic, where: Where = [], limit: Limit = 10) -> None:
    """Show dead letters in full: the record, its origin and its error."""
    with _pipeline_errors():
        letters, is_replayed = _select_letters(session, topic, where)
        chosen = [
            (letter, _letter_facts(letter, replayed=is_replayed(letter)))
            for letter in islice(letters, limit)
        ]
        more = next(letters, None) is not None
    blocks = [
        Fields([(name.upper(), value) for name, value in facts.items()]) for _, facts in chosen
    ]
    session.output.show([facts for _, facts in chosen], *blocks)
    if more:
        remark(f"the first {counted(len(chosen), 'dead letter')} shown; --limit N shows more")
    if not chosen:
        remark(_NONE.format(topic) + (_NO_MATCH if where else ""))


@command(app, "replay")
def replay(
    session: Session,
    topic: Topic,
    where: Where = [],
    limit: Limit = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TOPIC", help="Send to this topic instead of the original one."
        ),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql",
            metavar="SELECT",
            help="Fix records with a SELECT on Spark, from `source` with the fields of the JSON "
            'value, such as "SELECT * EXCEPT (amount), CAST(amount AS double) AS amount FROM '
            'source".',
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="FILE.py:FUNCTION",
            help="Fix records with a Python function that returns the record, or None to skip it.",
        ),
    ] = None,
    execute: Execute = False,
) -> ExitCode | None:
    """Send dead letters to their original topics again, each one once."""
    if sql is not None and python is not None:
        raise usage("--sql and --python exclude each other; give one")
    with _pipeline_errors():
        from headrace.pipeline.dead_letters.filter import parse_filter
        from headrace.pipeline.dead_letters.replay import Replay, Request
        from headrace.pipeline.producer import producer_settings

        chosen = parse_filter(*where)
        _check_topic(session, topic)
        fix, by = _choose_fix(sql, python), _replayer(session)
        request = Request(topic, chosen, limit, to, fix, by)
        settings = producer_settings(session.settings)
        if not execute:
            planned = Replay(request, settings).dry_run()
            facts, blocks = _replay_report(planned, execute=False)
            code = ExitCode.PARTIAL if planned.not_fixed else None
            action = f"send {counted(planned.total, 'record')} again"
            if not planned.total:
                session.output.show(facts, *blocks)
                return code
            if not is_approved(session.output, execute, action, facts, *blocks):
                return code
        with progress("records sent", shown=True) as counter:
            outcome = Replay(request, settings).execute(_advance_with(counter))
    facts, blocks = _replay_report(outcome, execute=True)
    session.output.show(facts, *blocks)
    return ExitCode.PARTIAL if outcome.not_fixed else None


def _advance_with(counter: Counter) -> "Callable[[ReplayResult], None]":
    """Advances the counter by the records sent since the last call."""
    before = 0

    def advance(outcome: "ReplayResult") -> None:
        nonlocal before
        counter.advance(outcome.total - before)
        before = outcome.total

    return advance


def _replayer(session: Session) -> str:
    """Who replays, for the ledger: the user of the cluster, or of this machine."""
    from getpass import getuser

    try:
        user = session.settings.get("sasl.username") or getuser()
    except (KeyError, OSError):  # a container without an entry in its password file
        user = "unknown"
    return f"headrace dlq replay: {user}"


def _choose_fix(sql: str | None, python: str | None) -> "Fix":
    from headrace.pipeline.dead_letters.python_fix import PythonFix, unchanged

    if python is not None:
        return PythonFix(python)
    if sql is not None:
        from headrace.pipeline.dead_letters.sql_fix import SqlFix

        return SqlFix(sql)
    return unchanged


def _select_letters(
    session: Session, topic: str, where: Sequence[str]
) -> "tuple[Iterator[Letter], Callable[[Letter], bool]]":
    """The selected dead letters, and a function that says whether one was replayed."""
    from headrace.pipeline.dead_letters.dead_letter_reader import letter_ranges, read_letters
    from headrace.pipeline.dead_letters.filter import parse_filter
    from headrace.pipeline.dead_letters.replay_ledger import read_ledger
    from headrace.pipeline.producer import producer_settings
    from headrace.pipeline.source.admin import LogAdmin

    chosen = parse_filter(*where)
    _check_topic(session, topic)
    settings = producer_settings(session.settings).reading()
    admin = LogAdmin(settings)
    layout = admin.topics(lambda name: name == topic)[topic]
    ledger = read_ledger(settings, topic, layout, to_the_end=False)
    letters = (
        letter
        for letter in read_letters(settings, letter_ranges(admin, topic))
        if _is_dead_letter(letter.facts) and chosen(letter)
    )
    return letters, lambda letter: letter in ledger


def _is_dead_letter(facts: "LetterFacts") -> bool:
    return bool(facts.topic or facts.file or facts.error)


def _check_topic(session: Session, topic: str) -> None:
    """Raises `CommandFailed` if the topic does not exist or is not a dead-letter topic."""
    from headrace.pipeline.dead_letters.dead_letter_reader import letter_ranges, read_letters
    from headrace.pipeline.dead_letters.headers import PREFIX
    from headrace.pipeline.producer import producer_settings
    from headrace.pipeline.source.admin import LogAdmin

    session.run(lambda client: find_topics(client, [topic], timeout_s=session.timeout_s))
    settings = producer_settings(session.settings).reading()
    letters = read_letters(settings, letter_ranges(LogAdmin(settings), topic))
    first = list(islice(letters, PEEKED))
    if first and not any(_is_dead_letter(letter.facts) for letter in first):
        raise CommandFailed(
            f"topic {topic!r} is not a dead-letter topic: its records have no {PREFIX}* headers; "
            "read it with headrace consume, or give the dead-letter topic of the pipeline's spec"
        )


# --- output -----------------------------------------------------------------------------------


def _replay_report(
    outcome: "ReplayResult", *, execute: bool
) -> tuple[dict[str, object], list[Block]]:
    """The result or the plan of a replay, as facts and as text."""
    done = "sent" if execute else "to send"
    goes = "sent" if execute else "goes"
    facts: dict[str, object] = {
        "executed": execute,
        "matched": outcome.matched,
        "replayed_before": outcome.done_before,
        "sent": dict(outcome.sent),
        "not_fixed": outcome.not_fixed,
        "samples": [_replay_result_facts(letter, made, goes) for letter, made in outcome.samples],
    }
    fields: list[tuple[str, object]] = [
        ("MATCHED", outcome.matched),
        ("REPLAYED BEFORE", outcome.done_before),
        *((f"{done.upper()} TO {name}", count) for name, count in sorted(outcome.sent.items())),
        ("NOT FIXED", outcome.not_fixed),
    ]
    rows = [
        (str(letter.at), letter.offset, letter.facts.error, *_replay_result(made, goes))
        for letter, made in outcome.samples
    ]
    blocks: list[Block] = [Fields(fields)]
    if rows:
        blocks.append(Table(("LETTER", "OFFSET", "ERROR", "RESULT", "VALUE"), rows))
    total = outcome.total + outcome.not_fixed
    if len(rows) < total:
        blocks.append(f"{len(rows)} of {total:,} shown")
    return facts, blocks


def _replay_result(made: "DraftRecord | NotFixed", goes: str) -> tuple[str, str]:
    from headrace.pipeline.dead_letters.python_fix import as_bytes

    if isinstance(made, Exception):
        return "stays", _shorten(str(made))
    return goes, _shorten(_text(as_bytes(made.value, "value")))


def _replay_result_facts(
    letter: "Letter", made: "DraftRecord | NotFixed", goes: str
) -> dict[str, object]:
    result, value = _replay_result(made, goes)
    return {**_letter_facts(letter, replayed=False), "result": result, "becomes": value}


def _sample_text(group: "ErrorGroup") -> str:
    lines = [f"{group.error}: {group.pattern}"]
    for letter in group.samples:
        facts = letter.facts
        lines.append(f"  {facts.place}: {_shorten(_text(letter.record.value))}")
    return "\n".join(lines)


def _group_facts(group: "ErrorGroup") -> dict[str, object]:
    return {
        "error": group.error,
        "message": group.pattern,
        "source": group.source,
        "pipeline": group.pipeline,
        "count": group.count,
        "replayed": group.replayed,
        "first": _utc_text(group.first_ms),
        "last": _utc_text(group.last_ms),
        "most_attempts": group.most_attempts,
        "samples": [_letter_facts(letter, replayed=None) for letter in group.samples],
    }


def _letter_facts(letter: "Letter", *, replayed: bool | None) -> dict[str, object]:
    from headrace.pipeline.dead_letters.headers import own_headers

    facts = letter.facts
    shown: dict[str, object] = {
        "letter": f"{letter.at} offset {letter.offset}",
        "time": _utc_text(letter.record.timestamp),
        "error": facts.error,
        "message": facts.message,
        "source": facts.place,
        "source_time": _utc_text(facts.timestamp_ms),
        "pipeline": facts.pipeline,
        "batch": facts.batch_id,
        "schema": facts.schema_version,
        "attempts": facts.attempts,
        "key": None if letter.record.key is None else _text(letter.record.key),
        "value": None if letter.record.value is None else _text(letter.record.value),
        "headers": [f"{name}={_text(value)}" for name, value in own_headers(letter.record.headers)],
    }
    if replayed is not None:
        shown["replayed"] = replayed
    return shown


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _utc_text(ms: int) -> str | None:
    if ms < 0:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
