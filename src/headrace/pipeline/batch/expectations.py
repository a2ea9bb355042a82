"""Rules that rows must meet, checked as part of `_error`, without another pass over the data."""

from typing import TYPE_CHECKING, Final

from headrace.pipeline.core.columns import DELETED, ERROR
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.record_check import literal, problem
from headrace.pipeline.spec.flow import Expectation, Flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ACTIONS: Final = {"drop": "skip", "fail": "fail", "dead_letter": "dead_letter"}


def error_sql(rules: tuple[Expectation, ...]) -> str:
    """`_error` with the first rule that a good row breaks. Deletes are not checked."""
    branches = " ".join(_branch(rule) for rule in rules)
    return f"CASE WHEN {ERROR} IS NOT NULL THEN {ERROR} WHEN {DELETED} THEN NULL {branches} END"


def _branch(rule: Expectation) -> str:
    message = literal(f"{rule.name}: {' '.join(rule.sql.split())}")
    broken = problem(BadRecord.EXPECTATION_FAILED, message, _ACTIONS[rule.on_fail])
    return f"WHEN NOT coalesce(({rule.sql}\n), false) THEN {broken}"


def expect(rows: "DataFrame", flow: Flow) -> "DataFrame":
    """Marks the rows that break a rule; it removes none, because the batch counts them."""
    if not flow.expect:
        return rows
    from pyspark.sql import functions as F  # noqa: N812

    return rows.withColumn(ERROR, F.expr(error_sql(flow.expect)))
