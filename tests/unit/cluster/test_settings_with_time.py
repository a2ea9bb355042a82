"""Settings of what is not built yet are checked and announced as without effect."""

import pytest

from headrace.cluster.settings import BrokerSettings, InvalidSetting


@pytest.mark.parametrize("name", ["quota.window.num", "ssl.keystore.location"])
def test_a_setting_that_nobody_obeys_yet_gives_a_warning(name: str) -> None:
    (warning,) = BrokerSettings.parse({name: "11"}).warnings
    assert warning.startswith(f"ignoring {name}: not supported yet (")


def test_it_is_checked_all_the_same() -> None:
    with pytest.raises(InvalidSetting, match=r"group.max.size = many"):
        BrokerSettings.parse({"group.max.size": "many"})


def test_settings_that_are_obeyed_give_none() -> None:
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
