"""Spark starts a Python process for each streaming query on its driver: it must start fast."""

import subprocess
import sys

FOR_TASKS_ONLY = ("pyarrow.compute", "numba", "headrace.pipeline.source.record_reader")


def test_a_querys_process_on_the_driver_loads_nothing_that_only_tasks_need() -> None:
    program = (
        "import sys, headrace.pipeline.source.datasource; "
        f"print(*[name for name in {FOR_TASKS_ONLY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
