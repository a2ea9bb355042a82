"""A broker starts without the libraries that would cost more time than the broker itself."""

import subprocess
import sys
import textwrap

FORBIDDEN = (
    *("click", "rich", "typer", "argparse"),
    *("pydantic", "pyspark", "pyarrow", "numba", "numpy"),
    *("importlib.metadata", "confluent_kafka", "aiokafka", "kio"),
    *("cryptography", "jwt", "email", "urllib.request", "opentelemetry", "google.protobuf"),
    *("h11", "prometheus_client", "headrace.broker.http", "headrace.broker.metrics"),
    *("headrace.broker.network.metered_dispatch", "headrace.metrics.durations"),
    *("headrace.local_security", "headrace.certificate_files", "headrace.client.login.tls_context"),
)

START_AND_STOP = """
import asyncio, sys, tempfile
from headrace.cli.broker.options import parse_up
from headrace.cli.broker.up import settings_of
from headrace.broker.node import Broker
from headrace.process_tuning import collect_rarely, keep_freed_memory, loop_factory
from pathlib import Path

async def main(data):
    options = parse_up(["--port", "0", "--ephemeral", "--set", "num.partitions=2"])
    broker = Broker(settings_of(options, Path(data)), ephemeral=True)
    await broker.start()
    await broker.stop()

with tempfile.TemporaryDirectory() as data, asyncio.Runner(loop_factory=loop_factory()) as runner:
    runner.run(main(data))
print(*sys.modules)
"""


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_starting_a_broker_loads_no_heavy_library() -> None:
    loaded = modules_after(START_AND_STOP)
    assert "headrace.broker.node" in loaded
    assert not loaded & set(FORBIDDEN)


def test_handlers_and_messages_are_not_loaded_before_they_are_used() -> None:
    loaded = modules_after(START_AND_STOP)
    assert not [name for name in loaded if name.startswith("headrace.protocol.messages.")]
    handlers = {name for name in loaded if name.startswith("headrace.broker.handlers.")}
    assert not handlers


def test_parts_that_are_built_at_their_first_use_are_not_loaded_before() -> None:
    loaded = modules_after(START_AND_STOP)
    parts = (
        *("broker.coordinators", "broker.replication", "broker.share", "broker.transactions"),
        *("coordinator.group", "coordinator.share_state", "coordinator.transaction", "share"),
    )
    assert not [
        name for name in loaded for part in parts if f"{name}.".startswith(f"headrace.{part}.")
    ]


def test_importing_headrace_loads_none_of_its_parts() -> None:
    loaded = modules_after("import headrace, sys; print(*sys.modules)")
    assert {name for name in loaded if name.startswith("headrace")} == {"headrace"}
    assert "asyncio" not in loaded


def test_importing_testing_loads_no_broker_until_one_is_wanted() -> None:
    loaded = modules_after("import headrace.testing, sys; print(*sys.modules)")
    assert "headrace.broker.node" not in loaded
