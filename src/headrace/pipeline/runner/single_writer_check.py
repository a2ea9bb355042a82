"""Ensures that one pipeline writes a topic to a table. A second one would duplicate records.

The commits of a table name the pipelines that wrote them and the topics that they read. So the
table itself shows whether it has the records of a topic, whichever machine wrote them.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from headrace.pipeline.sinks.table_sink import SinkError, TableSink
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sinks import TableSink as TableSpec
from headrace.pipeline.spec.sources import TopicSource

BACKFILL: Final = ".backfill-"
"""Separates the flow's id from the backfill's name. A backfill reads records again on purpose."""


def check_sole_writer(flow: Flow, sink: TableSink, siblings: Collection[str]) -> str | None:
    """Raises `SinkError` if another pipeline has written these topics to this table.

    `siblings` are the flows of the same spec. They may share a table. If this pipeline has already
    written to the table, the function returns a warning instead, because an error would stop a
    running pipeline.
    """
    source, spec = flow.source, flow.sink
    if not isinstance(source, TopicSource) or not isinstance(spec, TableSpec):
        return None
    if spec.other_pipelines == "allow":
        return None
    own = {_flow_of(flow.id), *siblings}
    others = {
        name: sorted(topic for topic in topics if _reads(source, topic))
        for name, topics in sink.writers().items()
        if _flow_of(name) not in own
    }
    found = {name: topics for name, topics in sorted(others.items()) if topics}
    if not found:
        return None
    message = _explanation(spec.table, found)
    if sink.last_commit(flow.id, ()) is not None:
        return message
    raise SinkError(message)


def _flow_of(name: str) -> str:
    return name.partition(BACKFILL)[0]


def _reads(source: TopicSource, topic: str) -> bool:
    if source.pattern is not None:
        return re.fullmatch(source.pattern, topic) is not None
    return topic in source.topics


def _explanation(table: str, found: Mapping[str, list[str]]) -> str:
    name, topics = next(iter(found.items()))
    what = f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"{table} already holds records of {what}, written by pipeline {name}{more}; this pipeline "
        f"would write them a second time. To continue where {name} stopped, use its name and its "
        "checkpoint directory. To write them again on purpose, set other_pipelines: allow in the "
        "sink"
    )
