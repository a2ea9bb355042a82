"""The number of measurements is limited, and idle ones are dropped."""

from headrace.security.quotas.rate_meter import RateMeter
from headrace.security.quotas.sensor_table import SensorTable


def table(max_sensors: int) -> SensorTable[RateMeter]:
    return SensorTable(lambda: RateMeter(11, 1.0), RateMeter.is_idle, max_sensors)


def test_a_scope_keeps_its_measurement() -> None:
    sensors = table(10)
    assert sensors.get("a", 0.0) is sensors.get("a", 1.0)


def test_the_least_recently_used_measurement_is_dropped_when_there_are_too_many() -> None:
    sensors = table(3)
    first = sensors.get("first", 0.0)
    first.record(1, 0.0)
    for number in range(1_000):
        sensors.get(number, 0.0).record(1, 0.0)
        assert sensors.get("first", 0.0) is first
        assert len(sensors) <= 3


def test_idle_measurements_are_dropped_when_new_ones_come() -> None:
    sensors = table(10_000)
    for number in range(100):
        sensors.get(number, 0.0).record(1, 0.0)
    for number in range(100, 160):
        sensors.get(number, 20.0).record(1, 20.0)
    assert len(sensors) == 60
