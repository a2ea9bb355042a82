"""What must fit together in a spec, beyond each section by itself. Pure."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from headrace.pipeline.spec.flow import DeadLetter, Expectation, FlowSpec, OnError, SqlStep, Step
from headrace.pipeline.spec.formats import Avro, Csv, Format, Protobuf
from headrace.pipeline.spec.select import NotASelect, read_select
from headrace.pipeline.spec.sinks import Delta, Parquet, Sink, Topic
from headrace.pipeline.spec.sources import FileSource, Source, StartOffsets, TopicSource

if TYPE_CHECKING:
    from headrace.pipeline.spec.pipeline import PipelineSpec

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """What is wrong, where, and what to write instead."""

    path: Path
    message: str
    fix: str = ""


class _Parts(NamedTuple):
    """A flow and where its parts stand in the spec."""

    at: Path
    source: Source
    transform: tuple[Step, ...]
    expect: tuple[Expectation, ...]
    sink: Sink
    dead_letter: DeadLetter | None
    on_error: OnError | None


def problems_of(spec: "PipelineSpec") -> list[Problem]:
    found = [*_shape(spec), *_places(spec)]
    for flow in _parts(spec):
        for check in (_source, _formats, _steps, _expectations, _dead_letter, _sink, _circles):
            found.extend(check(flow))
    return found


def _parts(spec: "PipelineSpec") -> Iterator[_Parts]:
    if spec.source is not None and spec.sink is not None:
        yield _Parts(
            (), spec.source, spec.transform, spec.expect, spec.sink, spec.dead_letter, spec.on_error
        )
    for i, flow in enumerate(spec.flows):
        yield _Parts(
            ("flows", i),
            flow.source,
            flow.transform,
            flow.expect,
            flow.sink,
            flow.dead_letter or spec.dead_letter,
            flow.on_error or spec.on_error,
        )


def _shape(spec: "PipelineSpec") -> Iterator[Problem]:
    if spec.flows:
        for name in ("source", "sink", "transform", "expect"):
            if getattr(spec, name):
                yield Problem((name,), f"{name} stands beside flows", f"move {name} into a flow")
        yield from _same_names(spec.flows)
        return
    for name in ("source", "sink"):
        if getattr(spec, name) is None:
            yield Problem((name,), f"{name} is missing", f"add {name}: or flows:")


def _places(spec: "PipelineSpec") -> Iterator[Problem]:
    """What lies in a table's folder is the table's: it may be deleted when that is cleaned up."""
    formats: dict[str, str] = {}
    for flow in _parts(spec):
        sink = flow.sink
        if not isinstance(sink, Delta | Parquet):
            continue
        at, table = (*flow.at, "sink", "table"), sink.table.rstrip("/")
        if f"{spec.checkpoint}/".startswith(f"{table}/"):
            yield Problem(
                ("checkpoint",), "is in the folder of a table", "name a directory of its own"
            )
        if formats.setdefault(table, sink.format) != sink.format:
            yield Problem(
                at, f"another flow keeps a table of format {formats[table]} there", "another folder"
            )


def _same_names(flows: tuple[FlowSpec, ...]) -> Iterator[Problem]:
    names = [flow.name for flow in flows]
    for i, name in enumerate(names):
        if name in names[:i]:
            yield Problem(("flows", i, "name"), f"two flows have the name {name}", "rename one")


def _source(flow: _Parts) -> Iterator[Problem]:
    source, at = flow.source, (*flow.at, "source")
    if not isinstance(source, TopicSource):
        if not isinstance(flow.sink, Topic):
            yield Problem(
                (*flow.at, "sink", "format"),
                "files and tables are streamed into a topic",
                "format: topic",
            )
        return
    if bool(source.topics) == (source.pattern is not None):
        what = "both topics and pattern are given" if source.topics else "no topic is named"
        yield Problem(at, what, "give topics: [name] or pattern: name.*")
    if source.pattern is not None:
        try:
            re.compile(source.pattern)
        except re.error as error:
            yield Problem((*at, "pattern"), f"is no pattern: {error}")
    if "on_null_value" in source.model_fields_set and getattr(flow.sink, "mode", "") == "merge":
        yield Problem(
            (*at, "on_null_value"), "with mode: merge a null value deletes a row", "take it out"
        )
    if isinstance(source.start, StartOffsets) and source.topics:
        for topic in source.start.offsets:
            if topic not in source.topics:
                yield Problem(
                    (*at, "start", "offsets", topic), f"{topic} is not one of the source's topics"
                )


def _formats(flow: _Parts) -> Iterator[Problem]:
    if not isinstance(flow.source, TopicSource):
        return
    for side in ("value", "key"):
        given: Format | None = getattr(flow.source, side)
        at = (*flow.at, "source", side)
        if isinstance(given, Avro | Protobuf) and given.schema_ is None and given.registry is None:
            yield Problem(
                at,
                f"{given.format} needs a schema",
                "add schema: file or registry: http://host:8081",
            )
        if isinstance(given, Csv) and given.schema_ is None:
            yield Problem(at, "csv needs a schema", "add e.g. schema: id BIGINT, name STRING")


def _steps(flow: _Parts) -> Iterator[Problem]:
    for i, step in enumerate(flow.transform):
        if isinstance(step, SqlStep):
            at = (*flow.at, "transform", i, "sql")
            try:
                select = read_select(step.sql)
            except NotASelect as error:
                yield Problem(at, str(error), "SELECT ... FROM source")
                continue
            if select.crosses_rows and step.scope == "row":
                yield Problem(at, per_batch(select.crosses_rows), PER_BATCH_FIX)


PER_BATCH_FIX = (
    "query the table instead, or add scope: batch to the step if one result per batch is wanted"
)


def per_batch(what: str) -> str:
    """Why a step that looks at several rows is refused."""
    return (
        f"{what}: each batch would be computed by itself, without the rows of other batches, and "
        "the result would depend on where batches end"
    )


def _expectations(flow: _Parts) -> Iterator[Problem]:
    lost = _lost(flow.transform)
    seen: set[str] = set()
    for i, rule in enumerate(flow.expect):
        at = (*flow.at, "expect", i)
        if rule.name in seen:
            yield Problem(
                (*at, "name"), f"two expectations have the name {rule.name}", "rename one"
            )
        seen.add(rule.name)
        yield from _one_row((*at, "sql"), rule)
        if rule.on_fail == "dead_letter" and lost:
            yield Problem(
                (*at, "on_fail"),
                f"a row cannot be traced to its record after {lost}",
                "on_fail: drop or fail, or put the rule into the WHERE of an earlier step",
            )


def _one_row(at: Path, rule: Expectation) -> Iterator[Problem]:
    from headrace.pipeline.spec.row_scope import condition_scope

    what = condition_scope(rule.sql)
    if what:
        yield Problem(
            at,
            f"{what}: a rule looks at one row at a time",
            "compute the value in a step with scope: batch, and compare its column here",
        )


def _lost(steps: tuple[Step, ...]) -> str:
    for step in steps:
        if isinstance(step, SqlStep):
            try:
                select = read_select(step.sql)
            except NotASelect:
                continue
            if select.untraceable:
                return select.untraceable
    return ""


def _dead_letter(flow: _Parts) -> Iterator[Problem]:
    source, on_error = flow.source, flow.on_error
    goes_on = on_error in ("skip", "dead_letter") or (flow.dead_letter and on_error is None)
    if goes_on and isinstance(source, FileSource) and source.has_own_lines:
        yield Problem(
            (*flow.at, "on_error"),
            "a line cannot be set aside where the options say that it is no row",
            "on_error: fail",
        )
    if flow.dead_letter is not None:
        return
    fix = "add dead_letter: {topic: name}"
    if flow.on_error == "dead_letter":
        yield Problem((*flow.at, "on_error"), "no dead-letter topic is named", fix)
    for i, rule in enumerate(flow.expect):
        if rule.on_fail == "dead_letter":
            at = (*flow.at, "expect", i, "on_fail")
            yield Problem(at, "no dead-letter topic is named", fix)


def _sink(flow: _Parts) -> Iterator[Problem]:
    sink, at = flow.sink, (*flow.at, "sink")
    if isinstance(sink, Topic):
        return
    if sink.mode == "merge" and isinstance(sink, Parquet):
        yield Problem(
            (*at, "mode"),
            "a folder of Parquet files can only be appended to",
            "format: delta or iceberg, or mode: append",
        )
    elif sink.mode == "merge" and not sink.key:
        yield Problem((*at, "mode"), "merge needs a key", "add key: [column, ...]")
    if sink.mode == "append" and sink.key:
        yield Problem((*at, "key"), "a key means nothing in mode append", "mode: merge, or no key")
    for name in ("key", "partition_by"):
        columns = getattr(sink, name)
        for i, column in enumerate(columns):
            if column in columns[:i]:
                yield Problem((*at, name, i), f"{column} is named twice")
            if column.startswith("_record") or column in ("_error", "_deleted"):
                yield Problem((*at, name, i), f"{column} is a name of the tool")


def _circles(flow: _Parts) -> Iterator[Problem]:
    """What a pipeline writes must not be what it reads, and dead letters lie by themselves."""
    dead_letter, sink = flow.dead_letter, flow.sink
    if dead_letter is not None and isinstance(sink, Topic) and sink.topic == dead_letter.topic:
        at = (*flow.at, "dead_letter", "topic")
        yield Problem(at, f"{sink.topic} is the flow's sink", "name another topic")
    if not isinstance(flow.source, TopicSource):
        return
    written = []
    if isinstance(flow.sink, Topic):
        written.append(((*flow.at, "sink", "topic"), flow.sink.topic))
    if flow.dead_letter is not None:
        written.append(((*flow.at, "dead_letter", "topic"), flow.dead_letter.topic))
    for at, topic in written:
        if _reads(flow.source, topic):
            yield Problem(at, f"the flow reads {topic} itself", "name another topic")


def _reads(source: TopicSource, topic: str) -> bool:
    if source.pattern is None:
        return topic in source.topics
    try:
        return re.fullmatch(source.pattern, topic) is not None
    except re.error:
        return False
