"""What a flow does to its rows: SQL over `source`, Python functions, expectations.

The record and its error travel with each row wherever a row comes from one record. Bad rows go
around the steps: a WHERE does not hide them, and a step that joins rows never sees them.
"""

import importlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from headrace.pipeline.batch.expectations import expect
from headrace.pipeline.batch.partition_rules import fitting
from headrace.pipeline.batch.plan_scope import crosses_rows
from headrace.pipeline.core.columns import (
    DELETED,
    ERROR,
    ERROR_TYPE,
    OWN,
    RECORD,
    RECORD_TYPE,
    REPORT,
)
from headrace.pipeline.formats.schema import quoted
from headrace.pipeline.spec.flow import Flow, PythonStep, SqlStep
from headrace.pipeline.spec.select import read_select
from headrace.pipeline.spec.sinks import TableSink, Topic
from headrace.pipeline.spec.spec_rules import PER_BATCH_FIX, per_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEPT: Final = f"{ERROR} IS NOT NULL OR {DELETED}"

LARGE_BYTES: Final = 16 << 10
"""Values below that make no record which is too large for a topic."""


class TransformError(ValueError):
    """A step that cannot be run: which one, why, and what to change."""


class CrossRowStep(TransformError):
    """A step with `scope: row` whose plan looks at several rows."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"transform[{number}]: {per_batch(what)}. To fix it: {PER_BATCH_FIX}")
        self.reason = per_batch(what)
        self.fix = PER_BATCH_FIX


def shape(rows: "DataFrame", flow: Flow) -> "DataFrame":
    """The flow's output columns, then `_record`, `_error` and `_deleted`.

    `_record` is null in good rows: nobody needs it any more, and it would be carried to the sink.
    A merge keeps it, since the last of several rows with one key is the one that counts; a topic
    may find large ones too large, which makes them dead letters.
    Raises `TransformError`, and Spark's own errors for SQL that does not fit the columns.
    """
    for number in range(len(flow.transform)):
        rows = run_step(rows, flow, number)
    rows = fitting(expect(rows, flow), flow)
    columns = [quoted(name) for name in rows.columns if name not in (*OWN, REPORT)]
    if not columns:
        raise TransformError("the flow's output has no column")
    report = [REPORT] if REPORT in rows.columns else []
    return rows.selectExpr(*columns, _kept_record(flow), ERROR, DELETED, *report)


def run_step(rows: "DataFrame", flow: Flow, number: int) -> "DataFrame":
    """One of the flow's steps; the tool's own columns are there afterwards too."""
    step = flow.transform[number]
    view = "headrace_" + re.sub(r"\W", "_", f"{flow.id}_{number}")
    if isinstance(step, SqlStep):
        return _sql(rows, step, view, number)
    return _python(rows, step, view, number)


def _kept_record(flow: Flow) -> str:
    if isinstance(flow.sink, TableSink) and flow.sink.mode == "merge":
        return RECORD
    wanted = f"{ERROR} IS NOT NULL"
    if isinstance(flow.sink, Topic):
        wanted += f" OR octet_length({RECORD}.value) >= {LARGE_BYTES}"
    return f"CASE WHEN {wanted} THEN {RECORD} END AS {RECORD}"


def _sql(rows: "DataFrame", step: SqlStep, view: str, number: int) -> "DataFrame":
    select = read_select(step.sql)
    carried = ", ".join(OWN)
    if not select.untraceable and not select.generates:
        rows.createOrReplaceTempView(view)
        return rows.sparkSession.sql(select.carrying(view, _KEPT, carried))
    good, bad = _parted(rows)
    good.createOrReplaceTempView(view)
    if not select.untraceable:
        made = rows.sparkSession.sql(select.carrying(view, "false", carried))
    else:
        made = rows.sparkSession.sql(select.over(view))
        _check_scope(made, step, view, number)
    return _joined(made, bad, number)


def _python(rows: "DataFrame", step: PythonStep, view: str, number: int) -> "DataFrame":
    module, function = _loaded(step.python)
    _ship(module)
    good, bad = _parted(rows)
    made = function(good.alias(view))
    if not hasattr(made, "selectExpr"):
        kind = type(made).__name__
        raise TransformError(f"transform[{number}]: {step.python} gave {kind}, not a DataFrame")
    _check_scope(made, step, view, number)
    return _joined(made, bad, number)


def _check_scope(made: "DataFrame", step: SqlStep | PythonStep, view: str, number: int) -> None:
    """Raises `CrossRowStep`. A SELECT that carries the record needs no check.

    Spark refuses an aggregate beside a column that is not grouped, as `_record` is.
    """
    what = crosses_rows(made, view) if step.scope == "row" else ""
    if what:
        raise CrossRowStep(number, what)


def _parted(rows: "DataFrame") -> tuple["DataFrame", "DataFrame"]:
    return rows.where(f"{ERROR} IS NULL"), rows.where(f"{ERROR} IS NOT NULL")


def _joined(made: "DataFrame", bad: "DataFrame", number: int) -> "DataFrame":
    """What a step made, and the bad rows that went around it."""
    kinds = {RECORD: RECORD_TYPE, ERROR: ERROR_TYPE, DELETED: "boolean"}
    absent = [name for name in OWN if name not in made.columns]
    made = made.selectExpr(
        *(quoted(name) for name in made.columns),
        *(
            f"false AS {name}" if name == DELETED else f"CAST(NULL AS {kinds[name]}) AS {name}"
            for name in absent
        ),
    )
    if len(made.columns) == len(OWN):
        raise TransformError(f"transform[{number}]: the output has no column")
    return made.unionByName(bad.select(*OWN), allowMissingColumns=True)


def load_function(name: str) -> Callable[["DataFrame"], "DataFrame"]:
    """`module:function` or `file.py:function`; raises `TransformError`."""
    return _loaded(name)[1]


def _loaded(name: str) -> tuple[ModuleType, Callable[["DataFrame"], "DataFrame"]]:
    where, _, attribute = name.rpartition(":")
    try:
        module = (
            _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
        )
    except TransformError:
        raise
    except Exception as error:  # whatever the person's module does when it is imported
        raise TransformError(f"{where} cannot be imported: {error}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        names = [name for name, each in vars(module).items() if callable(each)]
        close = get_close_matches(attribute, names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise TransformError(f"{where} has no function {attribute}{hint}")
    return module, function


def _ship(module: ModuleType) -> None:
    """What the person's own code hands to Spark (UDFs, say) goes to the workers with its code.

    Otherwise only its name would go, and a worker could not import it: the file may be on the
    driver's machine alone. What is installed in this Python is expected to be in theirs.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    file = getattr(module, "__file__", None)
    installed = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")]
    if file is not None and not any(Path(file).is_relative_to(each) for each in installed):
        package = sys.modules[module.__name__.partition(".")[0]]
        register_pickle_by_value(package)  # type: ignore[no-untyped-call]


def _from_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"headrace_step_{file.stem}", file)
    if spec is None or spec.loader is None or not file.exists():
        raise TransformError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
