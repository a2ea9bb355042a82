"""Tests may write settings as Python values."""

import pytest

from headrace.testing import Broker, Cluster
from headrace.testing.setting_values import setting_texts


def test_numbers_and_booleans_become_kafkas_texts() -> None:
    given = {"a": 3, "b": True, "c": False, "d": 0.5, "e": "text"}
    assert setting_texts(given) == {"a": "3", "b": "true", "c": "false", "d": "0.5", "e": "text"}


def test_a_broker_accepts_the_settings() -> None:
    with Broker(settings={"num.partitions": 3, "auto.create.topics.enable": True}) as broker:
        broker.headrace.create_topic("t", partitions=-1)
        assert broker.headrace.topics() == {"t": 3}


@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_another_type_is_rejected_with_the_settings_name(
    kind: type[Broker] | type[Cluster],
) -> None:
    with pytest.raises(TypeError, match=r"setting num.partitions: \[3\] is a list; pass a str"):
        kind(settings={"num.partitions": [3]})  # type: ignore[dict-item]
