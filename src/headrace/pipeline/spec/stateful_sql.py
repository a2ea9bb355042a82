"""Finds and refuses SQL steps that combine rows: GROUP BY, windows, DISTINCT, LIMIT. Pure.

A pipeline runs its steps on one batch after the other and keeps no state between batches. A query
that treats each row by itself gives the same rows wherever a batch ends. A query that groups,
deduplicates, ranks, sorts or limits rows, or joins `source` with itself, does not.

Such a step is refused by `stateful_sql_error`, unless the spec says `scope: batch`.

Table names are resolved: an aggregate over another table, or over an array within one row, is
allowed. `batch/stateful_plan.py` checks Python steps, and SQL that only Spark can parse.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.pipeline.spec.flow import Scope

SOURCE: Final = "source"
DIALECT: Final = "databricks"
"""Spark's SQL and the path operator of variants (`value:name`), which Spark 4 supports."""

_MORE_AGGREGATES: Final = re.compile(
    r"\w+_agg(_\w+)?|collect_union|count_min_sketch|every|histogram_numeric|mean|measure|some|std"
    r"|try_avg|try_sum",
    re.IGNORECASE,
)
"""Spark's aggregate functions that sqlglot does not parse as aggregates."""
_OUTSIDE_CLAUSES: Final = frozenset({"from_", "joins", "with_"})


STATEFUL_STEP_FIX: Final = (
    "query the table instead, or add scope: batch to the step if one result per batch is wanted"
)


def stateful_sql_error(combining: str, scope: Scope) -> str:
    """The error of an SQL step; empty if the step is accepted.

    `combining` are the parts of its query that combine rows (`RowScope.crosses_rows`).
    """
    return stateful_step_error(combining) if combining and scope == "row" else ""


def stateful_step_error(combining: str) -> str:
    """The error of a step that combines rows; the step may be SQL or Python."""
    return (
        f"{combining}: each batch would be computed by itself, without the rows of other batches, "
        "and the result would depend on where batches end"
    )


class RowScope(NamedTuple):
    """Whether a query reads `source`, and whether it combines rows of it."""

    reads_source: bool
    crosses_rows: str
    """The parts of the query that combine rows (`GROUP BY, count()`); empty if there are none."""


class NotReadable(ValueError):
    """sqlglot cannot parse the text. Spark may still accept it."""


def parse_query(sql: str) -> exp.Query:
    """Parses the text as a single query; raises `NotReadable`."""
    try:
        found = [each for each in sqlglot.parse(sql, dialect=DIALECT) if each is not None]
    except (SqlglotError, RecursionError) as error:
        raise NotReadable(str(error)) from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise NotReadable("the text is not one query")
    return found[0]


def row_scope(query: exp.Query) -> RowScope:
    """The scope of `query`, in which `source` is the name of the step's rows."""
    walker = _QueryWalker()
    reads = walker.reads_source(query, {SOURCE: True})
    return RowScope(reads, ", ".join(dict.fromkeys(walker.reasons)))


def condition_scope(sql: str) -> str:
    """The parts of a condition that combine rows; empty if none, or if only Spark can parse it."""
    try:
        query = parse_query(f"SELECT ({sql}\n) FROM {SOURCE}")  # noqa: S608
    except NotReadable:
        return ""
    return row_scope(query).crosses_rows


def own_nodes(part: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression, without the nodes inside its subqueries."""
    return part.walk(prune=lambda node: isinstance(node, exp.Query))


Names = Mapping[str, bool]
"""Tables and common table expressions by name: whether their rows come from `source`."""


class _QueryWalker:
    """Walks a query from the inside out and collects the parts that combine rows."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def reads_source(self, node: exp.Query, names: Names) -> bool:
        """Whether the query's rows depend on `source`."""
        names = self._with_ctes(node, names)
        if isinstance(node, exp.Select):
            reads = self._select_reads_source(node, names)
        elif isinstance(node, exp.SetOperation):
            reads = self._set_operation_reads_source(node, names)
        elif isinstance(node, exp.Subquery):
            reads = self._relation_reads_source(node, names)
        else:
            reads = False
        if reads:
            self._collect_ordering(node)
        return reads

    def _with_ctes(self, node: exp.Query, names: Names) -> Names:
        with_ = node.args.get("with_")
        if with_ is None:
            return names
        for cte in with_.expressions:
            inner = {**names, cte.alias.lower(): False} if with_.args.get("recursive") else names
            names = {**names, cte.alias.lower(): self.reads_source(cte.this, inner)}
        return names

    def _select_reads_source(self, node: exp.Select, names: Names) -> bool:
        from_ = node.args.get("from_")
        reads = from_ is not None and self._relation_reads_source(from_.this, names)
        reads = self._joins_read_source(reads, node, names)
        nested = [self.reads_source(each, names) for each in _subqueries(node)]
        if any(nested):
            self.reasons.append("a subquery over source")
        if reads:
            self._collect_clauses(node)
        return reads or any(nested)

    def _relation_reads_source(self, node: exp.Expr, names: Names) -> bool:
        """Whether a table or subquery in a FROM or JOIN reads `source`."""
        reads = False
        if isinstance(node, exp.Table):
            named = isinstance(node.this, exp.Identifier) and not node.db
            reads = named and names.get(node.name.lower(), False)
        elif isinstance(node, exp.Subquery | exp.Lateral):
            inner = node.this
            reads = (
                self.reads_source(inner, names)
                if isinstance(inner, exp.Query)
                else self._relation_reads_source(inner, names)
            )
        if reads and node.args.get("sample") is not None:
            self.reasons.append("TABLESAMPLE")
        if reads and any(not each.args.get("unpivot") for each in node.args.get("pivots") or ()):
            self.reasons.append("PIVOT")
        return self._joins_read_source(reads, node, names)

    def _joins_read_source(self, reads: bool, node: exp.Expr, names: Names) -> bool:
        for join in node.args.get("joins") or ():
            joined = self._relation_reads_source(join.this, names)
            if reads and joined:
                self.reasons.append("a join of source with itself")
            elif (reads or joined) and _keeps_other_rows(join, source_is_left=reads):
                self.reasons.append(_outer_join_text(join))
            reads = reads or joined
        return reads

    def _set_operation_reads_source(self, node: exp.SetOperation, names: Names) -> bool:
        sides = [self.reads_source(each, names) for each in (node.left, node.right)]
        if any(sides):
            if not isinstance(node, exp.Union):
                self.reasons.append(node.key.upper())
            elif node.args.get("distinct"):
                self.reasons.append("UNION without ALL")
            elif not all(sides):
                self.reasons.append("UNION ALL with rows that do not come from source")
        return any(sides)

    def _collect_clauses(self, node: exp.Select) -> None:
        for name, shown in (
            ("distinct", "DISTINCT"),
            ("group", "GROUP BY"),
            ("having", "HAVING"),
            ("qualify", "QUALIFY"),
        ):
            if node.args.get(name) is not None:
                self.reasons.append(shown)
        for part in _clauses(node):
            self.reasons.extend(_row_combining_functions(part))

    def _collect_ordering(self, node: exp.Query) -> None:
        for name, shown in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
            found = node.args.get(name)
            if found is not None and not _is_limit_all(found):
                self.reasons.append(shown)


def _clauses(node: exp.Select) -> Iterator[exp.Expr]:
    """The parts of a SELECT that contain expressions over its rows."""
    for name, value in node.args.items():
        if name not in _OUTSIDE_CLAUSES:
            values = value if isinstance(value, list) else [value]
            yield from (each for each in values if isinstance(each, exp.Expr))


def _subqueries(node: exp.Select) -> Iterator[exp.Query]:
    for part in _clauses(node):
        yield from (each for each in own_nodes(part) if isinstance(each, exp.Query))


def _row_combining_functions(part: exp.Expr) -> Iterator[str]:
    """The names of aggregate and window functions."""
    for node in part.walk(prune=lambda each: isinstance(each, exp.Query | exp.Window)):
        if isinstance(node, exp.Window):
            yield "a window function (OVER)"
        elif _is_aggregate(node):
            yield f"{_function_name(node)}()"


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return _MORE_AGGREGATES.fullmatch(node.name) is not None
    if isinstance(node, exp.Any):  # but not `LIKE ANY (...)`
        return not isinstance(node.parent, exp.Binary)
    return isinstance(node, exp.AggFunc)


def _function_name(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Anonymous) else node.key


def _keeps_other_rows(join: exp.Join, *, source_is_left: bool) -> bool:
    """Whether the join returns rows of the other table that match no row of source."""
    if source_is_left:
        return join.side in ("RIGHT", "FULL")
    return join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI")


def _outer_join_text(join: exp.Join) -> str:
    words = " ".join(each for each in (join.side, join.kind) if each)
    return f"a {words} JOIN that keeps rows of the other table"


def _is_limit_all(node: exp.Expr) -> bool:
    limit = node.args.get("expression")
    return isinstance(limit, exp.Var) and limit.name.upper() == "ALL"
