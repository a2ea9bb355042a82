"""Separate runs of pytest, to test a plugin."""

import os
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 100


def run_pytest(where: Path, *arguments: str, **environment: str) -> str:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "HEADRACE_", "COV_"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=where,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
