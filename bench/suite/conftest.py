"""Notes how long set-up and clean-up of each test take; `bench.workloads.fixture` runs it."""

import json
import os
from pathlib import Path

import pytest

PHASES: dict[str, dict[str, float]] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("number", range(int(os.environ["BENCH_TESTS"])))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    PHASES.setdefault(report.nodeid, {})[report.when] = report.duration


def pytest_sessionfinish() -> None:
    Path(os.environ["BENCH_PHASES"]).write_text(json.dumps(list(PHASES.values())))
