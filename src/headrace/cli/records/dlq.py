"""`headrace dlq`: what pipelines could not use, why, and sending it again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli import completion
from headrace.cli.command import command
from headrace.cli.execution import Execute, is_approved
from headrace.cli.exits import CommandFailed, ExitCode, usage
from headrace.cli.output import Block, Counter, Fields, Table, counted, progress, remark
from headrace.cli.session import Session, find_topics

if TYPE_CHECKING:
    from headrace.pipeline.dead_letters.dead_letter_reader import Letter
    from headrace.pipeline.dead_letters.error_groups import ErrorGroup
    from headrace.pipeline.dead_letters.headers import Facts as LetterFacts
    from headrace.pipeline.dead_letters.python_fix import DraftRecord, Fix, NotFixed
    from headrace.pipeline.dead_letters.replay import ReplayResult

app = typer.Typer(help="Dead letters of pipelines.", no_args_is_help=True)

INSTALL: Final = "dead letters need more libraries: pip install 'headrace[pipeline]'"
MAX_SHOWN: Final = 200
"""Characters of a value in a table."""
PEEKED: Final = 100
"""Records of a topic without one dead letter among them: the topic is an ordinary one."""

_NONE: Final = "no dead letter in {}"
_NO_MATCH: Final = " matches --where"

Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help="The dead-letter topic.", autocompletion=completion.topics
    ),
]
Where = Annotated[
    list[str],
    typer.Option(
        "--where",
        metavar="CONDITION",
        help='Only these, e.g. "error = NotJson and source.offset >= 100"; fields: error, '
        "message, pipeline, source.topic, source.partition, source.offset, source.time, "
        "source.file, source.line, source.row, source.version, time, partition, offset, batch, "
        "schema, attempts; ~ searches a pattern. May be repeated.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="At most this many.")
]


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of the pipeline's parts as sentences."""
    try:
        from headrace.pipeline.batch.transform import TransformError
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
        int, typer.Option("--samples", metavar="N", min=0, help="Samples of each error.")
    ] = 1,
) -> None:
    """List dead letters by error: how many, since when, how many were sent again."""
    with _explained():
        from headrace.pipeline.dead_letters.error_groups import grouped

        letters, is_replayed = _letters(session, topic, where)
        groups = grouped(letters, is_replayed, samples)
    rows = [
        (
            group.count,
            group.replayed,
            group.error,
            group.pattern,
            group.source,
            group.pipeline,
            _time(group.last_ms),
        )
        for group in groups
    ]
    blocks: list[Block] = [
        Table(("COUNT", "REPLAYED", "ERROR", "MESSAGE", "SOURCE", "PIPELINE", "LAST"), rows)
    ]
    blocks.extend(_sample(group) for group in groups if group.samples)
    session.output.show([_group_facts(group) for group in groups], *blocks)
    if not groups:
        remark(_NONE.format(topic) + (_NO_MATCH if where else ""))


@command(app, "show")
def show(session: Session, topic: Topic, where: Where = [], limit: Limit = 10) -> None:
    """Show dead letters in full: the record, where it came from, what is wrong with it."""
    with _explained():
        letters, is_replayed = _letters(session, topic, where)
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
        typer.Option("--to", metavar="TOPIC", help="Another topic than the record's own."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql",
            metavar="SELECT",
            help='A fix: a SELECT over `source`, the fields of the JSON value, e.g. "SELECT * '
            'EXCEPT (amount), CAST(amount AS double) AS amount FROM source". Runs on Spark.',
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="FILE.py:FUNCTION",
            help="A fix: a function that gets the record and returns it, or None to leave it.",
        ),
    ] = None,
    execute: Execute = False,
) -> ExitCode | None:
    """Send dead letters to their topics again, each once."""
    if sql is not None and python is not None:
        raise usage("--sql and --python are two fixes: give one")
    with _explained():
        from headrace.pipeline.dead_letters.filter import parse_filter
        from headrace.pipeline.dead_letters.replay import Replay, Request
        from headrace.pipeline.producer import producer_settings

        chosen = parse_filter(*where)
        _check_topic(session, topic)
        request = Request(topic, chosen, limit, to, _fix(sql, python))
        settings = producer_settings(session.settings)
        if not execute:
            planned = Replay(request, settings).dry_run()
            facts, blocks = _report(planned, execute=False)
            code = ExitCode.PARTIAL if planned.not_fixed else None
            action = f"send {counted(planned.total, 'record')} again"
            if not planned.total:
                session.output.show(facts, *blocks)
                return code
            if not is_approved(session.output, execute, action, facts, *blocks):
                return code
        with progress("records sent", shown=True) as counter:
            outcome = Replay(request, settings).execute(_advance_with(counter))
    facts, blocks = _report(outcome, execute=True)
    session.output.show(facts, *blocks)
    return ExitCode.PARTIAL if outcome.not_fixed else None


def _advance_with(counter: Counter) -> "Callable[[ReplayResult], None]":
    """Advances the counter by what was sent since the last call."""
    before = 0

    def advance(outcome: "ReplayResult") -> None:
        nonlocal before
        counter.advance(outcome.total - before)
        before = outcome.total

    return advance


def _fix(sql: str | None, python: str | None) -> "Fix":
    from headrace.pipeline.dead_letters.python_fix import PythonFix, unchanged

    if python is not None:
        return PythonFix(python)
    if sql is not None:
        from headrace.pipeline.dead_letters.sql_fix import SqlFix

        return SqlFix(sql)
    return unchanged


def _letters(
    session: Session, topic: str, where: Sequence[str]
) -> "tuple[Iterator[Letter], Callable[[Letter], bool]]":
    """The letters that are meant, and whether one was sent again."""
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
    """Raises `CommandFailed` if the topic does not exist, or is not one of dead letters."""
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
            "read it with headrace consume, or name the topic that the pipeline's spec names"
        )


# --- what is printed --------------------------------------------------------------------------


def _report(outcome: "ReplayResult", *, execute: bool) -> tuple[dict[str, object], list[Block]]:
    """What was, or would be, sent: as facts and as text."""
    done = "sent" if execute else "to send"
    goes = "sent" if execute else "goes"
    facts: dict[str, object] = {
        "executed": execute,
        "matched": outcome.matched,
        "replayed_before": outcome.done_before,
        "sent": dict(outcome.sent),
        "not_fixed": outcome.not_fixed,
        "samples": [_change_facts(letter, made, goes) for letter, made in outcome.samples],
    }
    fields: list[tuple[str, object]] = [
        ("MATCHED", outcome.matched),
        ("REPLAYED BEFORE", outcome.done_before),
        *((f"{done.upper()} TO {name}", count) for name, count in sorted(outcome.sent.items())),
        ("NOT FIXED", outcome.not_fixed),
    ]
    rows = [
        (str(letter.at), letter.offset, letter.facts.error, *_change(made, goes))
        for letter, made in outcome.samples
    ]
    blocks: list[Block] = [Fields(fields)]
    if rows:
        blocks.append(Table(("LETTER", "OFFSET", "ERROR", "RESULT", "VALUE"), rows))
    total = outcome.total + outcome.not_fixed
    if len(rows) < total:
        blocks.append(f"{len(rows)} of {total:,} shown")
    return facts, blocks


def _change(made: "DraftRecord | NotFixed", goes: str) -> tuple[str, str]:
    from headrace.pipeline.dead_letters.python_fix import as_bytes

    if isinstance(made, Exception):
        return "stays", _short(str(made))
    return goes, _short(_text(as_bytes(made.value, "value")))


def _change_facts(letter: "Letter", made: "DraftRecord | NotFixed", goes: str) -> dict[str, object]:
    result, value = _change(made, goes)
    return {**_letter_facts(letter, replayed=False), "result": result, "becomes": value}


def _sample(group: "ErrorGroup") -> str:
    lines = [f"{group.error}: {group.pattern}"]
    for letter in group.samples:
        facts = letter.facts
        lines.append(f"  {facts.place}: {_short(_text(letter.record.value))}")
    return "\n".join(lines)


def _group_facts(group: "ErrorGroup") -> dict[str, object]:
    return {
        "error": group.error,
        "message": group.pattern,
        "source": group.source,
        "pipeline": group.pipeline,
        "count": group.count,
        "replayed": group.replayed,
        "first": _time(group.first_ms),
        "last": _time(group.last_ms),
        "most_attempts": group.most_attempts,
        "samples": [_letter_facts(letter, replayed=None) for letter in group.samples],
    }


def _letter_facts(letter: "Letter", *, replayed: bool | None) -> dict[str, object]:
    from headrace.pipeline.dead_letters.headers import own_headers

    facts = letter.facts
    shown: dict[str, object] = {
        "letter": f"{letter.at} offset {letter.offset}",
        "time": _time(letter.record.timestamp),
        "error": facts.error,
        "message": facts.message,
        "source": facts.place,
        "source_time": _time(facts.timestamp_ms),
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


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _time(ms: int) -> str | None:
    if ms < 0:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
