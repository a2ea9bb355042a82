"""Replication settings that fit the number of brokers."""

import pytest

from headrace.cluster.replication_settings import replication_settings


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_each_topic_has_at_most_three_replicas_and_tolerates_one_stopped_broker(
    brokers: int, replicas: str, in_sync: str
) -> None:
    settings = replication_settings(brokers)
    factors = {value for name, value in settings.items() if "replication.factor" in name}
    assert factors == {replicas}
    assert {value for name, value in settings.items() if "is" in name.split(".")[-1]} == {in_sync}
    assert settings["min.insync.replicas"] == in_sync
