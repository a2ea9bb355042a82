"""`zookeeper.connect` is a list of servers with a chroot; anything else is refused."""

import pytest

from headrace.cluster.settings import BrokerSettings, InvalidSetting
from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings


def parsed(connect: str) -> ZooKeeperSettings:
    settings = BrokerSettings.parse({"zookeeper.connect": connect, "broker.id": "1"})
    found = ZooKeeperSettings.of(settings)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("connect", "chroot"),
    [("a:1,b:2", ""), ("a:1/", ""), ("a:1/c", "/c"), ("a:1/c/d/", "/c/d"), ("a:1/..c", "/..c")],
)
def test_connect_is_split_into_servers_and_chroot(connect: str, chroot: str) -> None:
    assert parsed(connect).chroot == chroot


@pytest.mark.parametrize(
    "connect", ["a:x", ":2181", "a:1,,b:1", "a:1//c", "a:1/c//d", "a:1/c/../d", "a:1/./c", "a:1/.."]
)
def test_an_invalid_connect_string_is_refused(connect: str) -> None:
    with pytest.raises(InvalidSetting, match=r"zookeeper\.connect"):
        parsed(connect)
