"""A flow's transform: SQL over `source`, Python functions, expectations.

The record and its error stay with each row as long as a row comes from one record. Bad rows bypass
the steps: a WHERE does not hide them, and a step that joins rows never sees them.
"""

import importlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from headrace.name_suggestion import nearest_name
from headrace.pipeline.batch.expectations import expect
from headrace.pipeline.batch.partition_rules import fitting
from headrace.pipeline.batch.stateful_plan import refuse_stateful_step
from headrace.pipeline.batch.transform_error import TransformError
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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEPT: Final = f"{ERROR} IS NOT NULL OR {DELETED}"

LARGE_BYTES: Final = 16 << 10
"""A value below this size cannot become a record that is too large for a topic."""


def shape(rows: "DataFrame", flow: Flow) -> "DataFrame":
    """The flow's output columns, then `_record`, `_error` and `_deleted`.

    `_record` is null in good rows: no later step needs it, and carrying it to the sink costs time.
    A merge keeps it to find the last of several rows with one key. A topic sink keeps large ones,
    because a record that is too large for the topic is dead-lettered.
    Raises `TransformError`, and Spark's own errors for SQL that does not fit the columns.
    """
    for number in range(len(flow.transform)):
        rows = run_step(rows, flow, number)
    rows = fitting(expect(rows, flow), flow)
    columns = [quoted(name) for name in rows.columns if name not in (*OWN, REPORT)]
    if not columns:
        raise TransformError("the flow's output has no columns")
    report = [REPORT] if REPORT in rows.columns else []
    return rows.selectExpr(*columns, _record_column(flow), ERROR, DELETED, *report)


def run_step(rows: "DataFrame", flow: Flow, number: int) -> "DataFrame":
    """Runs one step of the flow. The result has Headrace's own columns, too."""
    step = flow.transform[number]
    view = "headrace_" + re.sub(r"\W", "_", f"{flow.id}_{number}")
    if isinstance(step, SqlStep):
        return _run_sql(rows, step, view, number)
    return _run_python(rows, step, view, number)


def _record_column(flow: Flow) -> str:
    if isinstance(flow.sink, TableSink) and flow.sink.mode == "merge":
        return RECORD
    wanted = f"{ERROR} IS NOT NULL"
    if isinstance(flow.sink, Topic):
        wanted += f" OR octet_length({RECORD}.value) >= {LARGE_BYTES}"
    return f"CASE WHEN {wanted} THEN {RECORD} END AS {RECORD}"


def _run_sql(rows: "DataFrame", step: SqlStep, view: str, number: int) -> "DataFrame":
    select = read_select(step.sql)
    carried = ", ".join(OWN)
    if not select.untraceable and not select.generates:
        rows.createOrReplaceTempView(view)
        return rows.sparkSession.sql(select.carrying(view, _KEPT, carried))
    good, bad = _split_good_and_bad(rows)
    good.createOrReplaceTempView(view)
    if not select.untraceable:
        made = rows.sparkSession.sql(select.carrying(view, "false", carried))
    else:
        made = rows.sparkSession.sql(select.over(view))
        refuse_stateful_step(made, step, view, number)
    return _union_bad_rows(made, bad, number)


def _run_python(rows: "DataFrame", step: PythonStep, view: str, number: int) -> "DataFrame":
    module, function = _load_step(step.python)
    _pickle_by_value(module)
    good, bad = _split_good_and_bad(rows)
    made = function(good.alias(view))
    if not hasattr(made, "selectExpr"):
        kind = type(made).__name__
        raise TransformError(f"transform[{number}]: {step.python} returned {kind}, not a DataFrame")
    refuse_stateful_step(made, step, view, number)
    return _union_bad_rows(made, bad, number)


def _split_good_and_bad(rows: "DataFrame") -> tuple["DataFrame", "DataFrame"]:
    return rows.where(f"{ERROR} IS NULL"), rows.where(f"{ERROR} IS NOT NULL")


def _union_bad_rows(made: "DataFrame", bad: "DataFrame", number: int) -> "DataFrame":
    """The output of a step together with the bad rows that bypassed it."""
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
        raise TransformError(f"transform[{number}]: the output has no columns")
    return made.unionByName(bad.select(*OWN), allowMissingColumns=True)


def load_function(name: str) -> Callable[["DataFrame"], "DataFrame"]:
    """`module:function` or `file.py:function`; raises `TransformError`."""
    return _load_step(name)[1]


def _load_step(name: str) -> tuple[ModuleType, Callable[["DataFrame"], "DataFrame"]]:
    where, _, attribute = name.rpartition(":")
    try:
        module = (
            _module_of_file(Path(where))
            if where.endswith(".py")
            else importlib.import_module(where)
        )
    except TransformError:
        raise
    except Exception as error:  # any error of the user's module during its import
        raise TransformError(f"cannot import {where}: {error}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        names = [name for name, each in vars(module).items() if callable(each)]
        near = nearest_name(attribute, names)
        hint = "" if near is None else f"; did you mean {near}?"
        raise TransformError(f"{where} has no function {attribute}{hint}")
    return module, function


def _pickle_by_value(module: ModuleType) -> None:
    """Makes Spark send the module's functions (for example UDFs) to the workers with their code.

    By default only the name is sent, and a worker could not import it: the file may exist on the
    driver's machine alone. Installed packages are expected to be installed on the workers, too.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    file = getattr(module, "__file__", None)
    installed = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")]
    if file is not None and not any(Path(file).is_relative_to(each) for each in installed):
        package = sys.modules[module.__name__.partition(".")[0]]
        register_pickle_by_value(package)  # type: ignore[no-untyped-call]


def _module_of_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"headrace_step_{file.stem}", file)
    if spec is None or spec.loader is None or not file.exists():
        raise TransformError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
