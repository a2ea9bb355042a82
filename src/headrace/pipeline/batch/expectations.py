"""Rules that rows must meet, as one more look at `_error`: no further pass over the data."""

from typing import TYPE_CHECKING, Final

from headrace.pipeline.core.columns import DELETED, ERROR
from headrace.pipeline.formats.bad_record import BadRecord, literal, problem
from headrace.pipeline.spec.flow import Expectation, Flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ACTIONS: Final = {"drop": "skip", "fail": "fail", "dead_letter": "dead_letter"}


def error_sql(rules: tuple[Expectation, ...]) -> str:
    """`_error` with the first rule that a good row breaks; deletes have nothing to be judged."""
    branches = " ".join(_branch(rule) for rule in rules)
    return f"CASE WHEN {ERROR} IS NOT NULL THEN {ERROR} WHEN {DELETED} THEN NULL {branches} END"


def _branch(rule: Expectation) -> str:
    message = literal(f"{rule.name}: {' '.join(rule.sql.split())}")
    broken = problem(BadRecord.EXPECTATION_FAILED, message, _ACTIONS[rule.on_fail])
    return f"WHEN NOT coalesce(({rule.sql}\n), false) THEN {broken}"


def expect(rows: "DataFrame", flow: Flow) -> "DataFrame":
    """Rows that break a rule are marked, not removed: the batch counts them."""
    if not flow.expect:
        return rows
    from pyspark.sql import functions as F  # noqa: N812

    return rows.withColumn(ERROR, F.expr(error_sql(flow.expect)))
