"""Whole clusters on virtual time: a few seeds here, a thousand in script/test-sim."""

import os
import subprocess
import sys

import pytest

from headrace.testing.simulation.clients.guarded_topic import NO_RIGHT_NO_SERVICE
from headrace.testing.simulation.nemesis import FaultProfile
from headrace.testing.simulation.planted_bugs import planted
from headrace.testing.simulation.scenario import Outcome, run
from headrace.testing.simulation.seeds import run_limited

SECONDS = 20.0


def check(outcome: Outcome) -> None:
    assert outcome.violation is None, "\n".join(outcome.recent)
    assert outcome.acknowledged
    assert outcome.faults
    groups = (outcome.commits, outcome.classic_commits, outcome.deliveries)
    assert (outcome.transactions and all(groups)) or outcome.profile is FaultProfile.STORM


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cluster_keeps_its_guarantees_under_every_fault_profile(seed: int) -> None:
    check(run(seed, SECONDS))


def test_no_request_is_served_once_every_broker_knows_that_its_right_is_gone() -> None:
    """While brokers fail; and no acknowledged record is lost."""
    outcome = run(4, SECONDS, guarded=True)
    check(outcome)
    assert outcome.denied


def test_a_broker_that_keeps_old_acls_is_found() -> None:
    with planted("keep-acls"):
        violation = run(1, SECONDS, guarded=True).violation
    assert violation is not None
    assert violation.rule == NO_RIGHT_NO_SERVICE


def test_a_cluster_seed_gives_the_same_run_in_every_process_whatever_it_logs() -> None:
    code = "from headrace.testing.simulation.scenario import run; print(run(5, 8).digest)"
    log_everything = (
        "import logging; from headrace.log_levels import LOGGERS;"
        "[logging.getLogger(each).setLevel('DEBUG') for each in LOGGERS if each.count('.')];"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for program in (code, log_everything + code)
    ]
    assert runs[0] == runs[1]
    assert runs[0].strip()


@pytest.mark.parametrize(
    "bug",
    [
        "ack-on-append",
        "any-generation",
        "any-leader-epoch",
        "forget-shared",
        "majority",
        "read-unstable",
    ],
)
def test_a_planted_bug_is_found(bug: str) -> None:
    with planted(bug):
        assert any(run(seed, SECONDS).violation for seed in range(1, 11))


def test_code_that_never_yields_to_the_event_loop_is_found() -> None:
    """For example, a commit that is retried endlessly on a closed store."""
    for cpu_s in (0.1, 0.2, 0.3):  # whichever task is interrupted, and however it handles that
        assert run_limited(1, SECONDS, cpu_s).violation is not None


def test_the_command_runs_seeds_in_several_processes() -> None:
    command = [sys.executable, "-m", "headrace.testing.simulation"]
    played = subprocess.run(
        [*command, "--seeds", "2", "--seconds", "5", "--processes", "2"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (played.returncode, "0 seeds failed" in played.stdout) == (0, True), played.stderr
