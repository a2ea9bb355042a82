"""Parses a step's SELECT over `source` and rewrites it to keep the record of each row. Pure.

A bad row can be traced to its record only if each row comes from one record. A plain
`SELECT ... FROM source [WHERE ...]` is therefore rewritten to select the record, too. Every other
query runs as it is written and loses the record.

The rewriting inserts into the text of the spec and does not print sqlglot's tree, so that Spark
runs exactly the expressions that the spec contains.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from sqlglot import exp

ONLY_SPARK: Final = "SQL that only Spark can read"
_FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*(\w*)", re.DOTALL)
_MENTIONS_SOURCE: Final = re.compile(r"\bsource\b", re.IGNORECASE)
_CACHED_TEXTS: Final = 256
"""More statements than one spec has. Every batch reads the statements of its steps again."""


class Select(NamedTuple):
    """A SELECT and the positions in its text that the rewriting needs."""

    sql: str
    untraceable: str = ""
    """Why a row cannot be traced to its record; empty if it can."""
    crosses_rows: str = ""
    """The parts that combine rows; empty if the text shows none."""
    columns_end: int = 0
    source_end: int = 0
    alias: str = ""
    where_start: int = -1
    """Where the condition of WHERE starts; -1 if there is none."""
    takes_all: bool = False
    """Whether `*` is selected, which includes Headrace's own columns."""
    generates: bool = False
    """Whether one row can become several or none (explode). Bad rows must bypass such a step."""

    def carrying(self, view: str, kept: str, carried: str) -> str:
        """The SELECT over `view` with the columns `carried` added.

        Rows for which the condition `kept` is true pass the WHERE in any case.
        """
        columns = self.sql[: self.columns_end].rstrip()
        if not self.takes_all:
            columns += f", {carried}"
        before = f"{columns} FROM {view} AS {self.alias}"
        if self.where_start < 0:
            return before + self.sql[self.source_end :]
        between = self.sql[self.source_end : self.where_start]
        return f"{before}{between} ({kept}) OR ({self.sql[self.where_start :]}\n)"

    def over(self, view: str) -> str:
        """The unchanged text, with `source` as a name of `view`."""
        return f"WITH source AS (SELECT * FROM {view}) ({self.sql}\n)"  # noqa: S608


class NotASelect(ValueError):
    """The text is not a SELECT over `source`."""


@lru_cache(maxsize=_CACHED_TEXTS)
def read_select(sql: str) -> Select:
    """Parses a step's SQL; raises `NotASelect`."""
    from headrace.pipeline.spec.stateful_sql import NotReadable, parse_query, row_scope

    text = sql.strip().rstrip(";").rstrip()
    first = _FIRST_WORD.match(text)
    if first is None or first[1].upper() not in ("SELECT", "WITH"):
        raise NotASelect("a step must be one SELECT over source")
    try:
        query = parse_query(text)
    except NotReadable:
        if _MENTIONS_SOURCE.search(text) is None:
            raise NotASelect("the SELECT does not read from source") from None
        return Select(text, untraceable=ONLY_SPARK)
    scope = row_scope(query)
    if not scope.reads_source:
        raise NotASelect("the SELECT does not read from source")
    why = scope.crosses_rows or _why_untraceable(query)
    if why:
        return Select(text, untraceable=why, crosses_rows=scope.crosses_rows)
    return _traceable_select(text, query)


_NOT_REWRITTEN: Final = {
    "with_": "WITH",
    "joins": "a JOIN",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "windows": "WINDOW",
    "limit": "LIMIT ALL",
}
"""Clauses that treat each row by itself, but whose text is not rewritten."""


def _why_untraceable(query: "exp.Query") -> str:
    from sqlglot import exp

    if not isinstance(query, exp.Select):
        return query.key.upper()
    for name, shown in _NOT_REWRITTEN.items():
        if query.args.get(name):
            return shown
    if any(isinstance(each, exp.QueryTransform) for each in query.expressions):
        return "TRANSFORM"
    table = query.args["from_"].this
    if not isinstance(table, exp.Table):
        return "a FROM that is not source itself"
    alias = table.args.get("alias")
    if table.args.get("pivots") or (alias is not None and alias.columns):
        return "UNPIVOT" if table.args.get("pivots") else "columns that FROM renames"
    return ""


def _traceable_select(text: str, query: "exp.Query") -> Select:
    import sqlglot
    from sqlglot import TokenType

    from headrace.pipeline.spec.stateful_sql import DIALECT

    table = query.args["from_"].this
    tokens = sqlglot.tokenize(text, dialect=DIALECT)
    at = next(i for i, each in enumerate(tokens) if each.start == table.this.meta["start"])
    alias = table.args.get("alias")
    last = table.this if alias is None else alias.this
    depth, where = 0, -1
    for token in tokens[at:]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.WHERE:
            where = token.end + 1
            break
    return Select(
        text,
        columns_end=tokens[at - 1].start,
        source_end=last.meta["end"] + 1,
        alias="source" if alias is None else text[last.meta["start"] : last.meta["end"] + 1],
        where_start=where,
        takes_all=_takes_all(query, last.name),
        generates=_generates(query),
    )


def _takes_all(query: "exp.Query", alias: str) -> bool:
    """Whether `*` or `alias.*` is selected; `a * b` and `struct.*` do not count."""
    from sqlglot import exp

    for each in query.expressions:
        if isinstance(each, exp.Star):
            return True
        if isinstance(each, exp.Column) and isinstance(each.this, exp.Star):
            named = each.table.lower() == alias.lower() and not each.db
            if named:
                return True
    return False


_GENERATORS: Final = re.compile(r"json_tuple|variant_explode(_outer)?|inline_outer", re.IGNORECASE)
"""Functions that generate rows but that sqlglot does not parse as generators."""


def _generates(query: "exp.Query") -> bool:
    from sqlglot import exp

    from headrace.pipeline.spec.stateful_sql import own_nodes

    known = (exp.Explode, exp.Posexplode, exp.Inline, exp.Stack)
    return bool(query.args.get("laterals")) or any(
        isinstance(node, known)
        or (isinstance(node, exp.Anonymous) and _GENERATORS.fullmatch(node.name) is not None)
        for each in query.expressions
        for node in own_nodes(each)
    )
