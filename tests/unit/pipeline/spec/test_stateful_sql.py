"""An SQL step that combines rows is refused, unless the spec says `scope: batch`."""

import pytest

from headrace.pipeline.spec.select import read_select
from headrace.pipeline.spec.stateful_sql import stateful_sql_error

STATEFUL = {
    "SELECT city, count(*) FROM source GROUP BY city": "GROUP BY, count()",
    "SELECT row_number() OVER (ORDER BY t) FROM source": "a window function (OVER)",
    "SELECT DISTINCT city FROM source": "DISTINCT",
    "SELECT * FROM source LIMIT 5": "LIMIT",
}


@pytest.mark.parametrize(("sql", "combining"), STATEFUL.items())
def test_a_step_that_combines_rows_is_refused(sql: str, combining: str) -> None:
    error = stateful_sql_error(read_select(sql).crosses_rows, "row")
    assert error.startswith(f"{combining}: each batch would be computed by itself")


@pytest.mark.parametrize("sql", STATEFUL)
def test_scope_batch_accepts_a_step_that_combines_rows(sql: str) -> None:
    assert stateful_sql_error(read_select(sql).crosses_rows, "batch") == ""


def test_a_step_that_treats_each_row_by_itself_is_accepted() -> None:
    sql = "SELECT upper(city) AS city FROM source WHERE amount > 5"
    assert stateful_sql_error(read_select(sql).crosses_rows, "row") == ""
