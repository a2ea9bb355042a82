"""Random faults on a real cluster under load: a short slice of `script/chaos`.

Three brokers and three ZooKeepers as processes, in network namespaces where they can be made.
HEADRACE_CHAOS_SECONDS sets the duration of the faults, HEADRACE_CHAOS_SEED the faults. With an odd
seed, clients and brokers use SASL_SSL, while certificates are replaced and rights change.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("HEADRACE_CHAOS_SECONDS", "25"))
SEED = int(os.environ.get("HEADRACE_CHAOS_SEED", str(random.randrange(2**31))))
# Starting, healing and the final polls, on a machine that does other things too.
AROUND_S = 400

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + AROUND_S + 60),
    pytest.mark.skipif(
        not all(map(shutil.which, ("java", "gcc"))), reason="needs Java and a C compiler"
    ),
    pytest.mark.skipif(
        bool(os.environ.get("HEADRACE_TEST_BOOTSTRAP")), reason="starts a cluster of its own"
    ),
]


def test_client_guarantees_hold_under_every_cluster_fault(tmp_path: Path) -> None:
    peer = "headrace-secured" if SEED % 2 else "headrace"
    options = ["--peer", peer, "--seconds", str(SECONDS), "--seed", str(SEED)]
    places = ["--results", str(tmp_path / "results"), "--work", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "chaos", *options, *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS + AROUND_S,
        check=False,
    )
    said = f"seed {SEED}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == 0, said
    (summary,) = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert summary["passed"], said
    assert summary["acks"] > 0 < sum(summary["faults"].values()), said
