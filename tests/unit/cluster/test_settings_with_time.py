"""Settings of missing features are checked, and reported as without effect."""

import pytest

from headrace.cluster.settings import BrokerSettings, InvalidSetting


@pytest.mark.parametrize("name", ["group.coordinator.append.linger.ms"])
def test_a_setting_without_effect_gives_a_warning(name: str) -> None:
    (warning,) = BrokerSettings.parse({name: "11"}).warnings
    assert warning.startswith(f"ignoring {name}: not supported yet (")


def test_a_setting_without_effect_is_still_checked() -> None:
    with pytest.raises(InvalidSetting, match=r"group.max.size = many"):
        BrokerSettings.parse({"group.max.size": "many"})


def test_settings_with_an_effect_give_no_warning() -> None:
    obeyed = {
        "transaction.state.log.num.partitions": "5",
        "num.partitions": "3",
        "broker.id": "1",
        "zookeeper.connect": "somewhere:2181",
        "replica.lag.time.max.ms": "10000",
        "controlled.shutdown.enable": "true",
        "auto.leader.rebalance.enable": "false",
    }
    assert BrokerSettings.parse(obeyed).warnings == ()
