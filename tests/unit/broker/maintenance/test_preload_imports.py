"""Modules that a broker imports after its start."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.broker.maintenance.preload_imports import MODULES, warm_up

DEADLINE_S = 60.0

FRESH_BROKER = """
import asyncio, sys
from headrace.broker.node import Broker
from headrace.broker.maintenance.preload_imports import MODULES
from headrace.cluster.settings import BrokerSettings

async def main(data):
    named = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data}
    broker = Broker(BrokerSettings.parse(named))
    await broker.start()
    print(sum(name in sys.modules for name in MODULES), flush=True)
    while not all(name in sys.modules for name in MODULES):
        await asyncio.sleep(0.01)
    print(len(MODULES))
    await broker.stop()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_broker_starts_without_its_coordinators_and_imports_them_later(
    tmp_path: Path,
) -> None:
    run = [sys.executable, "-c", FRESH_BROKER, str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    at_start, later = map(int, done.stdout.split())
    assert at_start < len(MODULES) / 4
    assert later == len(MODULES)


def test_modules_are_imported_one_per_loop_iteration_until_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(
        "headrace.broker.maintenance.preload_imports.import_module", imported.append
    )
    monkeypatch.setattr("headrace.broker.maintenance.preload_imports.PAUSE_S", 0.0)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        warm_up(loop, lambda: len(imported) == 2, ["a_1", "sys", "a_2", "a_3"], 0.0)
        assert not imported
        while len(imported) < 2:
            count = len(imported)
            await asyncio.sleep(0)
            assert len(imported) <= count + 1
        for _ in range(10):
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))
    assert imported == ["a_1", "a_2"]  # imported modules are skipped
