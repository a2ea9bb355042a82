"""Remote Spark workers: the driver must see their files, and they need the step's code."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from headrace.pipeline.batch.batch_job import check_seen
from headrace.pipeline.batch.transform import _load_step, _pickle_by_value
from headrace.pipeline.sinks.table_sink import SinkError

STEP = """
RATE = 3

def price(amount):
    return amount * RATE

def step(rows):
    return price
"""


def test_files_on_another_disk_are_detected_before_the_commit(tmp_path: Path) -> None:
    there = tmp_path / "there.parquet"
    there.touch()
    check_seen([there], str(tmp_path))
    with pytest.raises(SinkError, match="share under the same path"):
        check_seen([there, tmp_path / "elsewhere.parquet"], str(tmp_path))


def test_a_steps_functions_reach_workers_that_do_not_have_its_file(tmp_path: Path) -> None:
    file = tmp_path / "step_of_mine.py"
    file.write_text(STEP)
    module, function = _load_step(f"{file}:step")
    _pickle_by_value(module)
    price = function(None)  # type: ignore[arg-type]
    shipped = tmp_path / "shipped"
    shipped.write_bytes(cloudpickle.dumps(price))
    file.unlink()
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(14))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(shipped)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "42"


def test_installed_packages_are_expected_on_workers() -> None:
    module, function = _load_step("json:dumps")
    _pickle_by_value(module)
    assert len(cloudpickle.dumps(function)) < 200  # its name, not its code
