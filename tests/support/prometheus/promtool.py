"""promtool, from Debian's package `prometheus`, which script/test installs."""

import shutil
import subprocess
from collections.abc import Sequence

import pytest

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing: apt-get install prometheus"
)
TIMEOUT_S = 60


def promtool(
    words: Sequence[str], *, stdin: str | None = None, codes: tuple[int, ...] = (0,)
) -> str:
    """Its output; the exit code must be one of these."""
    done = subprocess.run(
        ["promtool", *words], input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout + done.stderr
