"""The process around a broker. Each test has a process of its own: the settings are global."""

import platform
import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_freed_megabytes_are_used_again_without_page_faults() -> None:
    faults = run(
        """
import resource
from headrace.process_tuning import keep_freed_memory

def faults(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        [b"x" * (8 << 20) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_freed_memory()
faults(2)
print(faults(20))
"""
    )
    # 32 MB are 8,192 pages: without the thresholds, most of them fault in each of twenty rounds.
    assert int(faults) < 8192


def test_what_lives_at_the_start_is_left_out_of_collections() -> None:
    frozen, enabled = run(
        """
import gc
gc.disable()
from headrace.process_tuning import collect_rarely
collect_rarely()
print(gc.get_freeze_count() > 1000, gc.isenabled())
"""
    ).split()
    assert (frozen, enabled) == ("True", "True")


def test_the_loop_is_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop")
    assert run(
        "from headrace.process_tuning import loop_factory; print(loop_factory().__module__)"
    ) == ("uvloop")


def test_without_uvloop_asyncio_serves() -> None:
    code = "import sys; sys.modules['uvloop'] = None\n"
    code += "from headrace.process_tuning import loop_factory; print(loop_factory())"
    assert run(code) == "None"
