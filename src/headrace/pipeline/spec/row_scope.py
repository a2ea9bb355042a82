"""Whether a query over `source` looks at more than one row at a time. Pure.

A pipeline runs its steps on one batch after the other and keeps no state between batches. A query
that treats each row by itself gives the same rows wherever a batch ends. A query that groups,
deduplicates, ranks, sorts or limits rows, or joins `source` with itself, does not.

The reader follows names: an aggregate over another table, or over the array of one row, is fine.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

SOURCE: Final = "source"
DIALECT: Final = "databricks"
"""Spark's SQL and the path operator of variants (`value:name`), which Spark 4 knows too."""

_MORE_AGGREGATES: Final = re.compile(
    r"\w+_agg(_\w+)?|collect_union|count_min_sketch|every|histogram_numeric|mean|measure|some|std"
    r"|try_avg|try_sum",
    re.IGNORECASE,
)
"""Aggregate functions of Spark that sqlglot does not know as such."""
_OUTSIDE_CLAUSES: Final = frozenset({"from_", "joins", "with_"})


class RowScope(NamedTuple):
    """What a query reads, and how."""

    reads_source: bool
    crosses_rows: str
    """What in the query looks at several rows (`GROUP BY, count()`); empty = nothing does."""


class NotReadable(ValueError):
    """sqlglot cannot read the text; Spark may."""


def parse_query(sql: str) -> exp.Query:
    """The only statement of the text; raises `NotReadable`."""
    try:
        found = [each for each in sqlglot.parse(sql, dialect=DIALECT) if each is not None]
    except (SqlglotError, RecursionError) as error:
        raise NotReadable(str(error)) from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise NotReadable("the text is not one query")
    return found[0]


def row_scope(query: exp.Query) -> RowScope:
    """What `query` reads, with the view of the step's rows named `source`."""
    reader = _Reader()
    reads = reader.query(query, {SOURCE: True})
    return RowScope(reads, ", ".join(dict.fromkeys(reader.reasons)))


def condition_scope(sql: str) -> str:
    """What in a condition looks at several rows; empty = nothing, or only Spark can read it."""
    try:
        query = parse_query(f"SELECT ({sql}\n) FROM {SOURCE}")  # noqa: S608
    except NotReadable:
        return ""
    return row_scope(query).crosses_rows


def own_nodes(part: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression; of a query inside it, the query itself only."""
    return part.walk(prune=lambda node: isinstance(node, exp.Query))


Names = Mapping[str, bool]
"""Tables and common table expressions by name: whether their rows come from `source`."""


class _Reader:
    """Walks a query from the inside out and collects what looks at several rows."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def query(self, node: exp.Query, names: Names) -> bool:
        """Whether the query's rows depend on `source`."""
        names = self._with_ctes(node, names)
        if isinstance(node, exp.Select):
            reads = self._select(node, names)
        elif isinstance(node, exp.SetOperation):
            reads = self._set_operation(node, names)
        elif isinstance(node, exp.Subquery):
            reads = self._relation(node, names)
        else:
            reads = False
        if reads:
            self._add_ordering(node)
        return reads

    def _with_ctes(self, node: exp.Query, names: Names) -> Names:
        with_ = node.args.get("with_")
        if with_ is None:
            return names
        for cte in with_.expressions:
            inner = {**names, cte.alias.lower(): False} if with_.args.get("recursive") else names
            names = {**names, cte.alias.lower(): self.query(cte.this, inner)}
        return names

    def _select(self, node: exp.Select, names: Names) -> bool:
        from_ = node.args.get("from_")
        reads = from_ is not None and self._relation(from_.this, names)
        reads = self._joins(reads, node, names)
        nested = [self.query(each, names) for each in _subqueries(node)]
        if any(nested):
            self.reasons.append("a subquery over source")
        if reads:
            self._add_clauses(node)
        return reads or any(nested)

    def _relation(self, node: exp.Expr, names: Names) -> bool:
        """Whether what stands in a FROM or JOIN reads `source`."""
        reads = False
        if isinstance(node, exp.Table):
            named = isinstance(node.this, exp.Identifier) and not node.db
            reads = named and names.get(node.name.lower(), False)
        elif isinstance(node, exp.Subquery | exp.Lateral):
            inner = node.this
            reads = (
                self.query(inner, names)
                if isinstance(inner, exp.Query)
                else self._relation(inner, names)
            )
        if reads and node.args.get("sample") is not None:
            self.reasons.append("TABLESAMPLE")
        if reads and any(not each.args.get("unpivot") for each in node.args.get("pivots") or ()):
            self.reasons.append("PIVOT")
        return self._joins(reads, node, names)

    def _joins(self, reads: bool, node: exp.Expr, names: Names) -> bool:
        for join in node.args.get("joins") or ():
            joined = self._relation(join.this, names)
            if reads and joined:
                self.reasons.append("a join of source with itself")
            elif (reads or joined) and _keeps_other_rows(join, source_is_left=reads):
                self.reasons.append(_outer(join))
            reads = reads or joined
        return reads

    def _set_operation(self, node: exp.SetOperation, names: Names) -> bool:
        sides = [self.query(each, names) for each in (node.left, node.right)]
        if any(sides):
            if not isinstance(node, exp.Union):
                self.reasons.append(node.key.upper())
            elif node.args.get("distinct"):
                self.reasons.append("UNION without ALL")
            elif not all(sides):
                self.reasons.append("UNION ALL with rows that do not come from source")
        return any(sides)

    def _add_clauses(self, node: exp.Select) -> None:
        for name, shown in (
            ("distinct", "DISTINCT"),
            ("group", "GROUP BY"),
            ("having", "HAVING"),
            ("qualify", "QUALIFY"),
        ):
            if node.args.get(name) is not None:
                self.reasons.append(shown)
        for part in _clauses(node):
            self.reasons.extend(_functions(part))

    def _add_ordering(self, node: exp.Query) -> None:
        for name, shown in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
            found = node.args.get(name)
            if found is not None and not _is_limit_all(found):
                self.reasons.append(shown)


def _clauses(node: exp.Select) -> Iterator[exp.Expr]:
    """The parts of a SELECT that hold expressions over its rows."""
    for name, value in node.args.items():
        if name not in _OUTSIDE_CLAUSES:
            values = value if isinstance(value, list) else [value]
            yield from (each for each in values if isinstance(each, exp.Expr))


def _subqueries(node: exp.Select) -> Iterator[exp.Query]:
    for part in _clauses(node):
        yield from (each for each in own_nodes(part) if isinstance(each, exp.Query))


def _functions(part: exp.Expr) -> Iterator[str]:
    """Aggregates and window functions, by name."""
    for node in part.walk(prune=lambda each: isinstance(each, exp.Query | exp.Window)):
        if isinstance(node, exp.Window):
            yield "a window function (OVER)"
        elif _is_aggregate(node):
            yield f"{_name(node)}()"


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return _MORE_AGGREGATES.fullmatch(node.name) is not None
    if isinstance(node, exp.Any):  # and not `LIKE ANY (...)`
        return not isinstance(node.parent, exp.Binary)
    return isinstance(node, exp.AggFunc)


def _name(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Anonymous) else node.key


def _keeps_other_rows(join: exp.Join, *, source_is_left: bool) -> bool:
    """Whether the table that is not source gives rows of its own to every batch."""
    if source_is_left:
        return join.side in ("RIGHT", "FULL")
    return join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI")


def _outer(join: exp.Join) -> str:
    words = " ".join(each for each in (join.side, join.kind) if each)
    return f"a {words} JOIN that keeps rows of the other table"


def _is_limit_all(node: exp.Expr) -> bool:
    limit = node.args.get("expression")
    return isinstance(limit, exp.Var) and limit.name.upper() == "ALL"
