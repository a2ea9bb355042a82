"""Row-wise SQL carries its record; what joins rows is known to lose it."""

import pytest

from headrace.pipeline.spec.select import NotASelect, read_select


def carried(sql: str) -> str:
    select = read_select(sql)
    assert not select.loses
    return " ".join(select.carrying("v", "bad", "_record").split())


@pytest.mark.parametrize(
    ("sql", "rewritten"),
    [
        ("SELECT id FROM source", "SELECT id, _record FROM v AS source"),
        (
            "select a as b from source s where a > 0 or b;",
            "select a as b, _record FROM v AS s where (bad) OR ( a > 0 or b )",
        ),
        ("SELECT * FROM source", "SELECT * FROM v AS source"),
        ("SELECT s.*, 1 AS x FROM `source` AS s", "SELECT s.*, 1 AS x FROM v AS s"),
        ("SELECT id, `S`.* FROM source S", "SELECT id, `S`.* FROM v AS S"),
        # The fields of a struct are not all columns.
        ("SELECT id, a.* FROM source", "SELECT id, a.*, _record FROM v AS source"),
        ("SELECT _record.* FROM source s", "SELECT _record.*, _record FROM v AS s"),
        ("SELECT source.a.* FROM source", "SELECT source.a.*, _record FROM v AS source"),
        ("SELECT b.source.* FROM source", "SELECT b.source.*, _record FROM v AS source"),
        ("SELECT * EXCEPT (a) FROM source", "SELECT * EXCEPT (a) FROM v AS source"),
        ("SELECT a*b AS p FROM source", "SELECT a*b AS p, _record FROM v AS source"),
        (
            "SELECT a IS DISTINCT FROM b AS d FROM source",
            "SELECT a IS DISTINCT FROM b AS d, _record FROM v AS source",
        ),
        (
            "SELECT extract(year FROM ts) AS y FROM source",
            "SELECT extract(year FROM ts) AS y, _record FROM v AS source",
        ),
        (
            "SELECT first, `limit`, offset FROM source",
            "SELECT first, `limit`, offset, _record FROM v AS source",
        ),
        (
            "SELECT 'GROUP BY; FROM x' AS t FROM source -- DISTINCT",
            "SELECT 'GROUP BY; FROM x' AS t, _record FROM v AS source -- DISTINCT",
        ),
        (
            "SELECT a FROM source WHERE a IN (SELECT max(a) FROM t)",
            "SELECT a, _record FROM v AS source WHERE (bad) OR ( a IN (SELECT max(a) FROM t) )",
        ),
    ],
)
def test_a_plain_select_is_made_to_carry_the_record(sql: str, rewritten: str) -> None:
    assert carried(sql) == rewritten


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT count(*) FROM source", "count()"),
        ("SELECT DISTINCT id FROM source", "DISTINCT"),
        ("SELECT id FROM source GROUP BY id", "GROUP BY"),
        ("SELECT id FROM source LIMIT 5", "LIMIT"),
        ("SELECT id FROM source JOIN other USING (id)", "JOIN"),
        ("SELECT id FROM source, other", "join"),
        ("SELECT id FROM (SELECT * FROM source)", "FROM"),
        ("SELECT id FROM source UNION ALL SELECT id FROM source", "UNION"),
        ("WITH t AS (SELECT * FROM source) SELECT * FROM t", "WITH"),
        ("SELECT row_number() OVER (PARTITION BY id) FROM source", "OVER"),
        ("SELECT round(sum(x), 2) FROM source", "sum()"),
        ("SELECT id FROM source ORDER BY id", "ORDER BY"),
    ],
)
def test_what_joins_or_picks_rows_loses_the_record(sql: str, why: str) -> None:
    assert why in read_select(sql).loses


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        (
            "WITH t AS (SELECT source FROM source) SELECT * FROM t",
            "WITH t AS (SELECT source FROM v AS source) SELECT * FROM t",
        ),
        (
            "SELECT a.id FROM source a, source AS b WHERE source > 1 LIMIT 5",
            "SELECT a.id FROM v a, v AS b WHERE source > 1 LIMIT 5",
        ),
        (
            "SELECT id FROM other LEFT JOIN source ON x = y",
            "SELECT id FROM other LEFT JOIN v AS source ON x = y",
        ),
    ],
)
def test_sql_that_loses_records_reads_the_view_wherever_it_names_source(
    sql: str, read: str
) -> None:
    assert read_select(sql).over("v") == read


@pytest.mark.parametrize(
    "sql", ["SELECT x, explode(xs) FROM source", "SELECT x FROM source LATERAL VIEW explode(y) t"]
)
def test_what_makes_other_numbers_of_rows_is_known(sql: str) -> None:
    assert read_select(sql).generates


@pytest.mark.parametrize("sql", ["", "DELETE FROM source", "SELECT 1", "SELECT a FROM source.b"])
def test_what_is_no_select_over_source_is_refused(sql: str) -> None:
    with pytest.raises(NotASelect):
        read_select(sql)
