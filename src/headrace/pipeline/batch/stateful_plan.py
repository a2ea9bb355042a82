"""Refuses Python steps that combine rows, and SQL steps that only Spark can parse.

A step must treat each row by itself, unless the spec says `scope: batch`. `refuse_stateful_step`
enforces the rule with the step's Spark plan; `spec/stateful_sql.py` enforces it for SQL texts.

The text of an SQL step shows that only as far as sqlglot can parse it, and a Python function does
not show it at all. Spark's analysed plan does: each aggregate, window, limit or join is a node of
it. The plan is read as the tree that Spark prints, in classic Spark as in Spark Connect.

A node counts if the step's rows are below it. They are marked by a name: the view that an SQL step
reads, or the alias that a Python step's rows are given.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.batch.transform_error import TransformError
from headrace.pipeline.spec.flow import Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LINE: Final = re.compile(r"((?:[: ]  )*)([:+]- )?(\w+) ?(.*)")
_INDENT: Final = 3
_ANALYSED: Final = re.compile(
    r"== Analyzed Logical Plan ==\n[^\n]*\n(.*?)\n\n?== Optimized Logical Plan ==", re.DOTALL
)
_NODES: Final = {
    "Aggregate": "an aggregation",
    "CoGroup": "a grouping",
    "Deduplicate": "a removal of duplicates",
    "DeduplicateWithinWatermark": "a removal of duplicates",
    "Distinct": "DISTINCT",
    "Except": "EXCEPT",
    "FlatMapCoGroupsInArrow": "a grouping",
    "FlatMapCoGroupsInPandas": "a grouping",
    "FlatMapGroupsInArrow": "a grouping",
    "FlatMapGroupsInPandas": "a grouping",
    "FlatMapGroupsInPandasWithState": "a grouping",
    "FlatMapGroupsWithState": "a grouping",
    "GlobalLimit": "a limit",
    "Intersect": "INTERSECT",
    "LocalLimit": "a limit",
    "MapGroups": "a grouping",
    "Offset": "an offset",
    "Pivot": "PIVOT",
    "Sample": "a sample",
    "Tail": "a limit",
    "TransformWithState": "a grouping",
    "TransformWithStateInPandas": "a grouping",
    "TransformWithStateInPySpark": "a grouping",
    "Window": "a window function",
    "WindowGroupLimit": "a window function",
}
_LEFT_IS_SOURCE: Final = frozenset(
    {"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin", "LeftSingle"}
)
_RIGHT_IS_SOURCE: Final = frozenset({"Inner", "Cross", "RightOuter"})
"""Joins with another table that keep only rows of the source, each by itself."""


@dataclass(slots=True)
class _Node:
    name: str
    details: str
    depth: int
    children: list["_Node"] = field(default_factory=list)
    subqueries: list["_Node"] = field(default_factory=list)
    """Plans inside the node's expressions."""


class StatefulStep(TransformError):
    """A step has `scope: row`, but its plan combines several rows."""

    def __init__(self, number: int, combining: str) -> None:
        # Imported here because it imports sqlglot, which a spec without SQL does not need.
        from headrace.pipeline.spec.stateful_sql import STATEFUL_STEP_FIX, stateful_step_error

        self.reason = stateful_step_error(combining)
        self.fix = STATEFUL_STEP_FIX
        super().__init__(f"transform[{number}]: {self.reason}. To fix it: {self.fix}")


def refuse_stateful_step(made: "DataFrame", step: Step, marker: str, number: int) -> None:
    """Raises `StatefulStep` if the plan of `made` combines several of the rows named `marker`.

    A SELECT that carries the record needs no check: Spark rejects an aggregate beside a column
    that is not grouped, such as `_record`.
    """
    combining = crosses_rows(made, marker) if step.scope == "row" else ""
    if combining:
        raise StatefulStep(number, combining)


def crosses_rows(made: "DataFrame", marker: str) -> str:
    """The parts of `made`'s plan that combine several of the rows named `marker`; "" if none."""
    return row_combining_nodes(_analysed_plan(made), marker)


def row_combining_nodes(text: str, marker: str) -> str:
    """The same for the text of a plan as Spark prints it."""
    reader = _Reader(marker)
    if not reader.reads(_parse_plan(text)):
        return "rows that Spark's plan does not trace to the step's input"
    return ", ".join(dict.fromkeys(reader.reasons))


def _analysed_plan(made: "DataFrame") -> str:
    classic: Any = getattr(made, "_jdf", None)
    if classic is not None:
        return str(classic.queryExecution().analyzed().treeString())
    connect: Any = made
    found = _ANALYSED.search(connect._explain_string(extended=True))
    return "" if found is None else found[1]


def _parse_plan(text: str) -> _Node:
    """The root of the plan. Spark prints a subquery one level deeper than a child."""
    root = _Node("", "", -1)
    path = [root]
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or (match[2] is None and len(path) > 1):
            continue  # a line within a literal
        node = _Node(match[3], match[4], len(match[1]) // _INDENT + (match[2] is not None))
        while path[-1].depth >= node.depth:
            path.pop()
        parent = path[-1]
        is_child = node.depth == parent.depth + 1
        (parent.children if is_child else parent.subqueries).append(node)
        path.append(node)
    return root


class _Reader:
    """Walks a plan from the leaves up and collects the nodes that combine several rows."""

    def __init__(self, marker: str) -> None:
        self.reasons: list[str] = []
        self._marker = marker
        self._ctes: dict[str, bool] = {}

    def reads(self, node: _Node) -> bool:
        """Whether the marked rows are below the node. Nodes below the marked rows are not read."""
        if node.name == "SubqueryAlias" and node.details == self._marker:
            return True
        if node.name == "CTERelationRef":
            return self._ctes.get(_first_word(node.details), False)
        in_subqueries = [self.reads(each) for each in node.subqueries]
        in_children = [self.reads(each) for each in node.children]
        if any(in_subqueries):
            self.reasons.append("a subquery over the step's rows")
        if any(in_children):
            self._add_reason(node, in_children)
        found = any(in_children) or any(in_subqueries)
        if node.name == "CTERelationDef":
            self._ctes[_first_word(node.details)] = found
        if node.name == "WithCTE":
            return in_children[-1]
        return found

    def _add_reason(self, node: _Node, reads: list[bool]) -> None:
        if node.name in _NODES:
            self.reasons.append(_NODES[node.name])
        elif node.name == "Sort" and node.details.endswith(
            "true"
        ):  # a global sort, not one within a task
            self.reasons.append("a sort")
        elif node.name == "Union" and not all(reads):
            self.reasons.append("a union with rows that do not come from the step's input")
        elif node.name.endswith("Join") and len(reads) > 1:
            if all(reads):
                self.reasons.append("a join of the step's rows with themselves")
            elif _first_word(node.details) not in (
                _LEFT_IS_SOURCE if reads[0] else _RIGHT_IS_SOURCE
            ):
                self.reasons.append("an outer join that keeps rows of the other table")


def _first_word(details: str) -> str:
    found = re.match(r"\w+", details)
    return "" if found is None else found[0]
