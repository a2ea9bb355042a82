"""A load generator's run with the broker's CPU time around it."""

from bench.load_generator import Option
from bench.peers.peer import Served
from bench.workload import Goal, Metric, Sample

PER_MILLION = 1_000_000


def metered(peer: Served, mode: str, count: int, **options: Option) -> dict[str, float]:
    """The generator's figures, with broker and client CPU seconds per million of what it counts."""
    before = peer.cpu_seconds()
    figures = dict(peer.load.run(mode, peer.bootstrap, count=count, **options))
    figures["broker_cpu"] = (peer.cpu_seconds() - before) * PER_MILLION / count
    figures["client_cpu"] = figures["client_cpu_s"] * PER_MILLION / count
    return figures


def metered_after_setup(peer: Served, mode: str, **options: Option) -> dict[str, float]:
    """The generator's figures, and as `broker_cpu_s` the broker's CPU seconds in the timed part."""
    readings: list[float] = []

    def read() -> None:
        readings.append(peer.cpu_seconds())

    figures = dict(peer.load.watch(mode, peer.bootstrap, options, on_ready=read, on_done=read))
    before, after = readings
    figures["broker_cpu_s"] = after - before
    return figures


def pick(figures: Sample, metrics: tuple[Metric, ...]) -> Sample:
    return {metric.key: figures[metric.key] for metric in metrics}


def throughput_metrics(
    *, rate_goal: float | None = None, cpu_goal: float | None = None
) -> tuple[Metric, ...]:
    return (
        Metric(
            "per_second",
            "rate",
            "msg/s",
            "higher",
            Goal("ratio", rate_goal) if rate_goal else None,
            headline=True,
        ),
        Metric(
            "broker_cpu",
            "broker CPU per million",
            "s",
            "lower",
            Goal("ratio", cpu_goal) if cpu_goal else None,
            headline=True,
        ),
        Metric("client_cpu", "client CPU per million", "s", "lower"),
    )
