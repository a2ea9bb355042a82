"""Settings of what is not built yet are checked and announced as without effect."""

import pytest

from headrace.cluster.settings import BrokerSettings, InvalidSetting


@pytest.mark.parametrize("name", ["zookeeper.connect", "ssl.keystore.location"])
def test_a_setting_that_nobody_obeys_yet_gives_a_warning(name: str) -> None:
    (warning,) = BrokerSettings.parse({name: "somewhere"}).warnings
    assert warning.startswith(f"{name} has no effect yet")


def test_it_is_checked_all_the_same() -> None:
    with pytest.raises(InvalidSetting, match=r"group.max.size = many"):
        BrokerSettings.parse({"group.max.size": "many"})


def test_settings_that_are_obeyed_give_none() -> None:
    obeyed = {"transaction.state.log.num.partitions": "5", "num.partitions": "3"}
    assert BrokerSettings.parse(obeyed).warnings == ()
