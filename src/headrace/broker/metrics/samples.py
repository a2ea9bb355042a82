"""Families of one sample or of one label."""

from collections.abc import Iterable, Mapping

from headrace.metrics.family import MetricFamily


def counter(name: str, help_: str, value: float) -> MetricFamily:
    return MetricFamily(name, "counter", help_, (), (((), value),))


def gauge(name: str, help_: str, value: float) -> MetricFamily:
    return MetricFamily(name, "gauge", help_, (), (((), value),))


def counters_by(name: str, help_: str, label: str, values: Mapping[str, float]) -> MetricFamily:
    return MetricFamily(name, "counter", help_, (label,), _by_label(values))


def gauges_by(name: str, help_: str, label: str, values: Mapping[str, float]) -> MetricFamily:
    return MetricFamily(name, "gauge", help_, (label,), _by_label(values))


def _by_label(values: Mapping[str, float]) -> Iterable[tuple[tuple[str, ...], float]]:
    return tuple(((key,), value) for key, value in values.items())
