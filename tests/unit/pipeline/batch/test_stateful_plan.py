"""A step whose Spark plan combines rows is refused, unless the spec says `scope: batch`."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from headrace.pipeline.batch.stateful_plan import StatefulStep, refuse_stateful_step
from headrace.pipeline.spec.flow import PythonStep, Scope
from headrace.pipeline.spec.stateful_sql import STATEFUL_STEP_FIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIMITED = "GlobalLimit 5\n+- LocalLimit 5\n   +- SubqueryAlias mine\n"
ROW_BY_ROW = "Project [a]\n+- SubqueryAlias mine\n"


def rows_with_plan(text: str) -> "DataFrame":
    """Rows with this plan, by the way that the plan is read from classic Spark."""
    plan = SimpleNamespace(treeString=lambda: text)
    execution = SimpleNamespace(analyzed=lambda: plan)
    return cast(
        "DataFrame", SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))
    )


def step(scope: Scope) -> PythonStep:
    return PythonStep(python="steps:newest", scope=scope)


def test_a_step_whose_plan_combines_rows_is_refused_with_the_fix() -> None:
    with pytest.raises(StatefulStep, match=r"^transform\[2\]: a limit: each batch") as refusal:
        refuse_stateful_step(rows_with_plan(LIMITED), step("row"), "mine", 2)
    assert refusal.value.fix == STATEFUL_STEP_FIX
    assert str(refusal.value).endswith(STATEFUL_STEP_FIX)


def test_scope_batch_accepts_a_plan_that_combines_rows() -> None:
    refuse_stateful_step(rows_with_plan(LIMITED), step("batch"), "mine", 0)


def test_a_plan_that_treats_each_row_by_itself_is_accepted() -> None:
    refuse_stateful_step(rows_with_plan(ROW_BY_ROW), step("row"), "mine", 0)
