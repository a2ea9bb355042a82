"""Runs the demo's pipeline until all orders are written, and counts its progress."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.pipeline.application.application import Application, RunSettings
from headrace.pipeline.application.spec_loader import load_spec
from headrace.pipeline.demo.traffic import Traffic
from headrace.pipeline.runner.events import Event, EventKind


class DemoFailed(Exception):
    """The demo failed. The message gives the reason."""


@dataclass(slots=True)
class DemoProgress:
    """The progress of the pipeline."""

    batches: int = 0
    rows: int = 0
    dead_letters: int = 0
    read: int = 0
    is_running: bool = False
    """Whether Spark has started."""
    began_s: float = field(default_factory=time.monotonic)

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self.began_s

    def add(self, event: Event) -> None:
        self.is_running = True
        if event.kind is EventKind.BATCH:
            self.batches += 1
            self.rows += event.rows
            self.dead_letters += event.dead_letters
        if event.offsets:
            self.read = sum(event.offsets.values())


def run(
    spec: Path,
    servers: str,
    traffic: Traffic,
    progress: DemoProgress,
    watch: Callable[[Event], None],
) -> bool:
    """Returns whether all orders are written. False means that it was stopped early.

    Raises `DemoFailed`.
    """
    landed = False

    def follow(event: Event) -> None:
        nonlocal landed
        progress.add(event)
        watch(event)
        if progress.batches:
            traffic.go_on()
        if traffic.is_over and (progress.read >= traffic.delivered or traffic.failure):
            landed = True
            application.stop()

    settings = RunSettings(kafka={"bootstrap.servers": servers})
    application = Application(load_spec(spec), settings, [follow])
    failed = application.run()
    if failed:
        raise DemoFailed(f"the pipeline stopped: {failed[0]}")
    if traffic.failure is not None:
        raise DemoFailed(f"orders cannot be sent: {traffic.failure}")
    return landed
