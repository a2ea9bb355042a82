"""The rules of a spec that involve several of its sections. Pure."""

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.pipeline.spec.flow import DeadLetter, Expectation, FlowSpec, OnError, SqlStep, Step
from headrace.pipeline.spec.formats import Avro, Csv, Format, Protobuf
from headrace.pipeline.spec.select import NotASelect, read_select
from headrace.pipeline.spec.sinks import Delta, Parquet, Sink, Topic
from headrace.pipeline.spec.sources import FileSource, Source, StartOffsets, TopicSource

if TYPE_CHECKING:
    from headrace.pipeline.spec.pipeline import PipelineSpec

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """An error of a spec: its position, its message and its fix."""

    path: Path
    message: str
    fix: str = ""
    depends_on: tuple[Path, ...] = ()
    """Other values that lead to this error."""

    def follows_from(self, invalid: Collection[Path]) -> bool:
        """Whether an invalid value causes this error, so that it is not an error of its own."""
        return any(
            is_within(self.path, each) or any(overlap(each, other) for other in self.depends_on)
            for each in invalid
        )


def is_within(path: Path, section: Path) -> bool:
    """Whether the path is that of the section, or of a value in it."""
    return path[: len(section)] == section


def overlap(path: Path, other: Path) -> bool:
    """Whether one of the paths is within the other."""
    return is_within(path, other) or is_within(other, path)


_COLUMN_KEYS: Final = ("format", "schema", "registry", "message", "type", "column")


def column_paths(flow: Path) -> tuple[Path, ...]:
    """The values of a spec that decide which columns the source of a flow has."""
    return tuple((*flow, "source", side, key) for side in ("value", "key") for key in _COLUMN_KEYS)


class _FlowSections(NamedTuple):
    """The sections of a flow, and the flow's position in the spec."""

    at: Path
    source: Source
    transform: tuple[Step, ...]
    expect: tuple[Expectation, ...]
    sink: Sink
    dead_letter: DeadLetter | None
    on_error: OnError | None


def problems_of(spec: "PipelineSpec") -> list[Problem]:
    found = [*_check_sections(spec), *_check_directories(spec)]
    for flow in _flows(spec):
        for check in _FLOW_CHECKS:
            found.extend(check(flow))
    return found


def _flows(spec: "PipelineSpec") -> Iterator[_FlowSections]:
    if spec.source is not None and spec.sink is not None:
        yield _FlowSections(
            (), spec.source, spec.transform, spec.expect, spec.sink, spec.dead_letter, spec.on_error
        )
    for i, flow in enumerate(spec.flows):
        yield _FlowSections(
            ("flows", i),
            flow.source,
            flow.transform,
            flow.expect,
            flow.sink,
            flow.dead_letter or spec.dead_letter,
            flow.on_error or spec.on_error,
        )


def _check_sections(spec: "PipelineSpec") -> Iterator[Problem]:
    if spec.flows:
        for name in ("source", "sink", "transform", "expect"):
            if getattr(spec, name):
                yield Problem(
                    (name,), f"{name} cannot be used beside flows", f"move {name} into a flow"
                )
        yield from _check_flow_names(spec.flows)
        return
    for name in ("source", "sink"):
        if getattr(spec, name) is None:
            yield Problem(
                (name,), f"{name} is missing", f"add {name}: or flows:", depends_on=(("flows",),)
            )


def _check_directories(spec: "PipelineSpec") -> Iterator[Problem]:
    """A table's directory belongs to one table only: vacuum deletes files it does not know."""
    formats: dict[str, str] = {}
    for flow in _flows(spec):
        sink = flow.sink
        if not isinstance(sink, Delta | Parquet):
            continue
        at, table = (*flow.at, "sink", "table"), sink.table.rstrip("/")
        if f"{spec.checkpoint}/".startswith(f"{table}/"):
            yield Problem(
                ("checkpoint",),
                "is in the directory of a table",
                "use a separate directory",
                depends_on=(at,),
            )
        if formats.setdefault(table, sink.format) != sink.format:
            yield Problem(
                at,
                f"another flow writes a table of format {formats[table]} to this directory",
                "use another directory",
                depends_on=((*flow.at, "sink", "format"),),
            )


def _check_flow_names(flows: tuple[FlowSpec, ...]) -> Iterator[Problem]:
    names = [flow.name for flow in flows]
    for i, name in enumerate(names):
        if name in names[:i]:
            yield Problem(("flows", i, "name"), f"two flows have the name {name}", "rename one")


def _check_source(flow: _FlowSections) -> Iterator[Problem]:
    source, at = flow.source, (*flow.at, "source")
    if not isinstance(source, TopicSource):
        if not isinstance(flow.sink, Topic):
            yield Problem(
                (*flow.at, "sink", "format"),
                "rows of files and tables can only be written to a topic",
                "format: topic",
            )
        return
    if bool(source.topics) == (source.pattern is not None):
        message = "both topics and pattern are set" if source.topics else "topics is missing"
        yield Problem(
            at,
            message,
            "set topics: [name] or pattern: name.*",
            depends_on=tuple((*at, key) for key in ("topics", "pattern", "files", "delta")),
        )
    if source.pattern is not None:
        try:
            re.compile(source.pattern)
        except re.error as error:
            yield Problem((*at, "pattern"), f"is not a regular expression: {error}")
    if "on_null_value" in source.model_fields_set and getattr(flow.sink, "mode", "") == "merge":
        yield Problem(
            (*at, "on_null_value"), "with mode: merge, a null value deletes a row", "remove it"
        )
    if isinstance(source.start, StartOffsets) and source.topics:
        for topic in source.start.offsets:
            if topic not in source.topics:
                yield Problem(
                    (*at, "start", "offsets", topic),
                    f"{topic} is not one of the source's topics",
                    depends_on=((*at, "topics"),),
                )


def _check_formats(flow: _FlowSections) -> Iterator[Problem]:
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
                depends_on=((*at, "schema"), (*at, "registry")),
            )
        if isinstance(given, Csv) and given.schema_ is None:
            yield Problem(
                at,
                "csv needs a schema",
                "add e.g. schema: id BIGINT, name STRING",
                depends_on=((*at, "schema"),),
            )


def _check_steps(flow: _FlowSections) -> Iterator[Problem]:
    for i, step in enumerate(flow.transform):
        if isinstance(step, SqlStep):
            # Imported here because it imports sqlglot, which a spec without SQL does not need.
            from headrace.pipeline.spec.stateful_sql import STATEFUL_STEP_FIX, stateful_sql_error

            at = (*flow.at, "transform", i, "sql")
            try:
                select = read_select(step.sql)
            except NotASelect as error:
                yield Problem(at, str(error), "SELECT ... FROM source")
                continue
            message = stateful_sql_error(select.crosses_rows, step.scope)
            if message:
                yield Problem(at, message, STATEFUL_STEP_FIX)


def _check_expectations(flow: _FlowSections) -> Iterator[Problem]:
    untraceable = _untraceable_part(flow.transform)
    seen: set[str] = set()
    for i, rule in enumerate(flow.expect):
        at = (*flow.at, "expect", i)
        if rule.name in seen:
            yield Problem(
                (*at, "name"), f"two expectations have the name {rule.name}", "rename one"
            )
        seen.add(rule.name)
        yield from _check_row_condition((*at, "sql"), rule)
        if rule.on_fail == "dead_letter" and untraceable:
            yield Problem(
                (*at, "on_fail"),
                f"a row cannot be traced to its record after {untraceable}",
                "use on_fail: drop or fail, or move the rule into the WHERE of an earlier step",
            )


def _check_row_condition(at: Path, rule: Expectation) -> Iterator[Problem]:
    from headrace.pipeline.spec.stateful_sql import condition_scope

    what = condition_scope(rule.sql)
    if what:
        yield Problem(
            at,
            f"{what}: a rule sees one row at a time",
            "compute the value in a step with scope: batch, and use its column here",
        )


def _untraceable_part(steps: tuple[Step, ...]) -> str:
    for step in steps:
        if isinstance(step, SqlStep):
            try:
                select = read_select(step.sql)
            except NotASelect:
                continue
            if select.untraceable:
                return select.untraceable
    return ""


def _check_dead_letter(flow: _FlowSections) -> Iterator[Problem]:
    source, on_error = flow.source, flow.on_error
    continues = on_error in ("skip", "dead_letter") or (flow.dead_letter and on_error is None)
    if continues and isinstance(source, FileSource) and source.has_own_lines:
        yield Problem(
            (*flow.at, "on_error"),
            "bad lines cannot be skipped or dead-lettered with these source options",
            "on_error: fail",
        )
    if flow.dead_letter is not None:
        return
    fix = "add dead_letter: {topic: name}"
    sections: tuple[Path, ...] = (("dead_letter",), (*flow.at, "dead_letter"))
    if flow.on_error == "dead_letter":
        yield Problem((*flow.at, "on_error"), "there is no dead-letter topic", fix, sections)
    for i, rule in enumerate(flow.expect):
        if rule.on_fail == "dead_letter":
            at = (*flow.at, "expect", i, "on_fail")
            yield Problem(at, "there is no dead-letter topic", fix, sections)


def _check_sink(flow: _FlowSections) -> Iterator[Problem]:
    sink, at = flow.sink, (*flow.at, "sink")
    if isinstance(sink, Topic):
        return
    if sink.mode == "merge" and isinstance(sink, Parquet):
        yield Problem(
            (*at, "mode"),
            "a directory of Parquet files can only be appended to",
            "use format: delta or iceberg, or mode: append",
            depends_on=((*at, "format"),),
        )
    elif sink.mode == "merge" and not sink.key:
        yield Problem((*at, "mode"), "merge needs a key", "add key: [column, ...]", ((*at, "key"),))
    if sink.mode == "append" and sink.key:
        yield Problem(
            (*at, "key"),
            "mode: append does not use a key",
            "use mode: merge, or remove key",
            depends_on=((*at, "mode"),),
        )
    for name in ("key", "partition_by"):
        columns = getattr(sink, name)
        for i, column in enumerate(columns):
            if column in columns[:i]:
                yield Problem((*at, name, i), f"{column} is listed twice")
            if column.startswith("_record") or column in ("_error", "_deleted"):
                yield Problem((*at, name, i), f"{column} is a reserved column")


def _check_topics_written(flow: _FlowSections) -> Iterator[Problem]:
    """A flow must not read a topic that it writes, and dead letters need a topic of their own."""
    dead_letter, sink = flow.dead_letter, flow.sink
    if dead_letter is not None and isinstance(sink, Topic) and sink.topic == dead_letter.topic:
        at = (*flow.at, "dead_letter", "topic")
        yield Problem(at, f"{sink.topic} is the flow's sink", "use another topic")
    if not isinstance(flow.source, TopicSource):
        return
    written = []
    if isinstance(flow.sink, Topic):
        written.append(((*flow.at, "sink", "topic"), flow.sink.topic))
    if flow.dead_letter is not None:
        written.append(((*flow.at, "dead_letter", "topic"), flow.dead_letter.topic))
    for at, topic in written:
        if _reads_topic(flow.source, topic):
            yield Problem(at, f"the flow reads {topic} itself", "use another topic")


def _reads_topic(source: TopicSource, topic: str) -> bool:
    if source.pattern is None:
        return topic in source.topics
    try:
        return re.fullmatch(source.pattern, topic) is not None
    except re.error:
        return False


_FLOW_CHECKS: Final = (
    _check_source,
    _check_formats,
    _check_steps,
    _check_expectations,
    _check_dead_letter,
    _check_sink,
    _check_topics_written,
)
