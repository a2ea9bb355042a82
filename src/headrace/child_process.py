"""Ends a child process: a signal, a time to react, then SIGKILL."""

import signal
import subprocess


def end_process(
    process: subprocess.Popen[bytes] | subprocess.Popen[str],
    patience_s: float,
    number: signal.Signals = signal.SIGTERM,
) -> None:
    """Sends the signal, waits until the process has ended, and kills it after `patience_s`."""
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)  # a stopped process does not handle the signal before
    wait_or_kill(process, patience_s)


def wait_or_kill(
    process: subprocess.Popen[bytes] | subprocess.Popen[str], patience_s: float
) -> None:
    """Waits until the process has ended, and kills it after `patience_s`."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
