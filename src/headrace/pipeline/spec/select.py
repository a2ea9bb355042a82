"""A SELECT over `source`, read just far enough to know whether it is row by row. Pure.

A bad row can be led back to its record only where each row comes from one record. So a plain
`SELECT ... FROM source [WHERE ...]` is rewritten to carry the record along; what joins rows or
picks among them (GROUP BY, DISTINCT, LIMIT, JOIN, UNION, aggregates, windows, WITH) runs as it is
written and loses it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>\d[\d.eE]*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_LOSES: Final = {
    "DISTINCT": "DISTINCT",
    "GROUP": "GROUP BY",
    "HAVING": "HAVING",
    "LIMIT": "LIMIT",
    "OFFSET": "OFFSET",
    "JOIN": "JOIN",
    "UNION": "UNION",
    "INTERSECT": "INTERSECT",
    "EXCEPT": "EXCEPT",
    "MINUS": "MINUS",
    "WITH": "WITH",
    "ORDER": "ORDER BY",
    "SORT": "SORT BY",
    "CLUSTER": "CLUSTER BY",
    "DISTRIBUTE": "DISTRIBUTE BY",
    "TABLESAMPLE": "TABLESAMPLE",
    "QUALIFY": "QUALIFY",
    "PIVOT": "PIVOT",
    "UNPIVOT": "UNPIVOT",
}
_GENERATORS: Final = re.compile(
    r"(explode|explode_outer|posexplode|posexplode_outer|inline|inline_outer|stack|json_tuple"
    r"|variant_explode|variant_explode_outer)",
    re.IGNORECASE,
)
_AFTER_FROM: Final = frozenset({"WHERE", "SELECT", "ON", "USING", "LATERAL", *_LOSES} - {"JOIN"})
_JOINS: Final = frozenset(
    {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "NATURAL"}
)
_AGGREGATES: Final = re.compile(
    r"(any|any_value|approx_\w+|array_agg|avg|bit_and|bit_or|bit_xor|bool_and|bool_or|collect_\w+"
    r"|corr|count|count_\w+|covar_\w+|every|first|first_value|grouping|grouping_id|hll_\w+"
    r"|histogram_numeric|kurtosis|last|last_value|listagg|max|max_by|mean|median|min|min_by|mode"
    r"|percentile|percentile_\w+|regr_\w+|skewness|some|std|stddev|stddev_\w+|string_agg|sum"
    r"|try_avg|try_sum|var_pop|var_samp|variance)",
    re.IGNORECASE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    depth: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else ""


class Select(NamedTuple):
    """What the rewriting needs: where things stand in the text."""

    sql: str
    loses: str
    """Why a row cannot be led back to its record; empty = it can."""
    columns_end: int
    source_start: int
    source_end: int
    alias: str
    where_start: int
    """Of the condition; -1 = there is none."""
    takes_all: bool
    """Whether `*` is selected, and with it the tool's own columns."""
    generates: bool = False
    """Whether it makes several rows of one, or none (explode): bad rows must go around it."""

    def carrying(self, view: str, kept: str, carried: str) -> str:
        """The SELECT over `view`, with the columns `carried`, and rows that are `kept` anyway."""
        columns = self.sql[: self.columns_end].rstrip()
        if not self.takes_all:
            columns += f", {carried}"
        before = f"{columns} FROM {view} AS {self.alias}"
        if self.where_start < 0:
            return before + self.sql[self.source_end :]
        between = self.sql[self.source_end : self.where_start]
        return f"{before}{between} ({kept}) OR ({self.sql[self.where_start :]}\n)"

    def over(self, view: str) -> str:
        """The text as it is written, reading `view` in place of source."""
        parts: list[str] = []
        position, previous, in_from = 0, "", False
        tokens = list(_tokens(self.sql))
        for each, following in zip(tokens, [*tokens[1:], None], strict=True):
            named = each.word == "SOURCE" or each.text.lower() == "`source`"
            in_from = each.word == "FROM" or (in_from and each.word not in _AFTER_FROM)
            if named and (previous in ("FROM", "JOIN") or (in_from and previous == ",")):
                renamed = following is not None and _is_alias(following)
                parts += [self.sql[position : each.start], view if renamed else f"{view} AS source"]
                position = each.end
            previous = each.word or each.text
        return "".join([*parts, self.sql[position:]])


def _is_alias(token: _Token) -> bool:
    """What follows a table's name: another name for it, or the next clause."""
    if token.kind == "quoted" or token.word == "AS":
        return True
    return token.kind == "word" and token.word not in _AFTER_FROM | _JOINS


class NotASelect(ValueError):
    """The text is no SELECT over `source`."""


def read_select(sql: str) -> Select:
    """Raises `NotASelect`."""
    text = sql.strip().rstrip(";").rstrip()
    tokens = list(_tokens(text))
    first = tokens[0].word if tokens else ""
    if first not in ("SELECT", "WITH"):
        raise NotASelect("a step is one SELECT over source")
    if not any(each.word == "SOURCE" or each.text == "`source`" for each in tokens):
        raise NotASelect("the SELECT does not read from source")
    loses = _why_lost(tokens)
    if loses:
        return Select(text, loses, 0, 0, 0, "", -1, takes_all=False)
    return _plain(text, tokens)


def _plain(text: str, tokens: list[_Token]) -> Select:
    top = [each for each in tokens if each.depth == 0]
    at = next((i for i, each in enumerate(top) if _is_from(top, i)), -1)
    following = top[at + 1 :] if at >= 0 else []
    if not following or following[0].text.strip("`").lower() != "source":
        return Select(text, "a FROM that is not source itself", 0, 0, 0, "", -1, takes_all=False)
    end, alias, rest = following[0].end, "source", following[1:]
    if rest and rest[0].text == ".":
        raise NotASelect("the SELECT does not read from source")
    if rest and rest[0].text == ",":
        return Select(text, "a join (FROM a, b)", 0, 0, 0, "", -1, takes_all=False)
    if rest and rest[0].word == "AS":
        rest = rest[1:]
    if rest and (rest[0].kind == "quoted" or rest[0].word not in ("", "WHERE", "LATERAL")):
        alias, end, rest = rest[0].text, rest[0].end, rest[1:]
    where = next((each.end for each in rest if each.word == "WHERE"), -1)
    columns_start = top[0].end
    columns_end = top[at].start
    return Select(
        text,
        "",
        columns_end,
        following[0].start,
        end,
        alias,
        where,
        _takes_all([each for each in top if columns_start <= each.start < columns_end], alias),
        any(each.word == "LATERAL" or _GENERATORS.fullmatch(each.text) for each in tokens),
    )


def _is_from(tokens: list[_Token], at: int) -> bool:
    """And not that of `a IS DISTINCT FROM b`."""
    return tokens[at].word == "FROM" and (at == 0 or tokens[at - 1].word != "DISTINCT")


def _takes_all(columns: list[_Token], alias: str) -> bool:
    """`*`, or `s.*` of the source itself: no star that multiplies, nor the fields of a struct."""
    before, previous = ",", ","
    name = _bare(alias)
    for at, each in enumerate(columns):
        if each.text == "*":
            starts = at < 3 or columns[at - 3].text == ","
            if previous == "," or (previous == "." and starts and _bare(before) == name):
                return True
        before, previous = previous, each.text
    return False


def _bare(name: str) -> str:
    return name.strip("`").lower()


def _why_lost(tokens: list[_Token]) -> str:
    for i, each in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else None
        called = following is not None and following.text == "("
        if each.depth == 0 and each.word in _LOSES and _is_clause(tokens, i):
            return _LOSES[each.word]
        if each.word == "OVER" and called:
            return "a window (OVER)"
        if called and _AGGREGATES.fullmatch(each.text) and not _in_subquery(tokens, i):
            return f"the aggregate {each.text}()"
    return ""


def _is_clause(tokens: list[_Token], at: int) -> bool:
    """And not `* EXCEPT (a)`, nor a column that happens to have such a name."""
    previous = tokens[at - 1].text if at else ""
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    match tokens[at].word:
        case "EXCEPT":
            return previous != "*"
        case "DISTINCT":
            return previous.upper() not in ("IS", "NOT")
        case "GROUP" | "ORDER" | "SORT" | "CLUSTER" | "DISTRIBUTE":
            return following is not None and following.word == "BY"
        case "OFFSET" | "LIMIT":
            return (
                following is not None
                and following.kind in ("number", "word")
                and (previous != "," and following.word not in ("AS", "FROM"))
                and tokens[at - 1].word != "SELECT"
                and previous != "."
            )
        case _:
            return previous != "."


def _in_subquery(tokens: list[_Token], at: int) -> bool:
    """Whether a SELECT stands between the token and the bracket that holds it."""
    depth = tokens[at].depth
    for each in reversed(tokens[:at]):
        if each.depth < depth:
            depth = each.depth
        if each.word == "SELECT" and 0 < each.depth <= tokens[at].depth and each.depth >= depth:
            return True
    return False


def _tokens(text: str) -> Iterator[_Token]:
    depth = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind == "space":
            continue
        if match[0] == ")":
            depth -= 1
        yield _Token(kind, match[0], match.start(), match.end(), depth)
        if match[0] == "(":
            depth += 1
