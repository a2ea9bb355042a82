"""A broker starts only with consistent settings; an error names the invalid one."""

import pytest

from headrace.cluster.listeners import Listener
from headrace.cluster.settings import AUTHORIZERS, BrokerSettings, InvalidSetting


def test_the_defaults_are_kafkas() -> None:
    settings = BrokerSettings.parse({})
    assert settings.node_id == 1
    assert settings.integer("num.partitions") == 1
    assert settings.boolean("auto.create.topics.enable")
    assert settings.words("log.cleanup.policy") == ("delete",)
    assert settings.string("broker.rack") is None
    assert settings.optional_integer("log.retention.ms") is None
    assert settings.number("log.cleaner.min.cleanable.ratio") == 0.5
    assert settings.listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert settings.log_dirs == ()
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("values", "node_id"),
    [({"broker.id": "7"}, 7), ({"node.id": "7"}, 7), ({"broker.id": "-1"}, 1)],
)
def test_broker_id_and_node_id_are_one_setting(values: dict[str, str], node_id: int) -> None:
    settings = BrokerSettings.parse(values)
    assert settings.node_id == settings.integer("broker.id") == node_id


def test_flush_ack_means_a_flush_for_each_message_unless_the_interval_is_set() -> None:
    assert BrokerSettings.parse({"flush": "ack"}).integer("log.flush.interval.messages") == 1
    chosen = {"flush": "ack", "log.flush.interval.messages": "50"}
    assert BrokerSettings.parse(chosen).integer("log.flush.interval.messages") == 50


def test_the_data_directories_are_log_dirs_then_log_dir() -> None:
    assert BrokerSettings.parse({"log.dir": "/a"}).log_dirs == ("/a",)
    assert BrokerSettings.parse({"log.dir": "/a", "log.dirs": "/b,/c"}).log_dirs == ("/b", "/c")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num.partitions", "0", r"num\.partitions = 0: .*at least 1"),
        ("num.partitions", "many", r"Not a number of type INT \(allowed: a whole number"),
        ("log.retenton.ms", "1", r"did you mean log\.retention\.ms\?"),
        ("retention.ms", "5", r"for all topics set log\.retention\.ms"),
        ("quux", "1", "quux = 1: no such setting"),
        ("compression.type", "brotli", "one of uncompressed, zstd"),
        ("group.min.session.timeout.ms", "9999999", r"larger than group\.max\.session"),
        ("listeners", "localhost:9092", "NAME://host:port"),
        ("listeners", "PLAINTEXT://:70000", "from 0 to 65535"),
        ("listeners", "FOO://:1", r"FOO has no security protocol"),
        ("listeners", "", "at least one listener"),
        ("listeners", "PLAINTEXT://:1,SSL://:1", "used by more than one"),
        ("listeners", "PLAINTEXT://:1,PLAINTEXT://:2", "used by more than one"),
        ("listener.security.protocol.map", "A:B", "one of PLAINTEXT"),
        ("advertised.listeners", "SSL://here:1", "not among the listeners"),
        ("super.users", "alice", "expected a principal such as User:alice"),
        ("authorizer.class.name", "com.example.Ranger", "AclAuthorizer both select the built-in"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:1", "cannot connect to"),
        ("listener.name.plaintext.quux", "1", "no such setting"),
    ],
)
def test_an_invalid_setting_error_has_name_value_and_allowed_values(
    name: str, value: str, words: str
) -> None:
    with pytest.raises(InvalidSetting, match=words) as caught:
        BrokerSettings.parse({name: value})
    assert str(caught.value).startswith(f"{name} = {value}")


@pytest.mark.parametrize("name", AUTHORIZERS)
def test_the_names_of_kafkas_authorizers_select_the_built_in_one(name: str) -> None:
    settings = BrokerSettings.parse({"authorizer.class.name": name})
    assert (settings.string("authorizer.class.name"), settings.warnings) == (name, ())


def test_two_ids_that_differ_are_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"must equal node\.id"):
        BrokerSettings.parse({"broker.id": "1", "node.id": "2"})


def test_secrets_are_in_no_message_and_no_repr() -> None:
    settings = BrokerSettings.parse({"ssl.keystore.password": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(settings.controller())
    assert "hunter2" not in str(InvalidSetting("ssl.keystore.password", "hunter2", "bad"))


def test_kafka_settings_without_effect_give_a_warning_each() -> None:
    settings = BrokerSettings.parse(
        {
            "process.roles": "broker,controller",
            "controller.quorum.voters": "1@localhost:9093",
            "rsm.config.anything": "x",
            "num.partitions": "3",
        }
    )
    assert settings.warnings == (
        "ignoring process.roles: every node is a broker here",
        "ignoring controller.quorum.voters: there is no KRaft quorum here",
        "ignoring rsm.config.anything: it belongs to a Java plugin",
    )


def test_a_setting_without_a_reason_of_its_own_is_explained_by_its_purpose() -> None:
    (warning,) = BrokerSettings.parse({"metric.reporters": "x"}).warnings
    expected = "it has no effect here (Java classes that report metrics)"
    assert warning == f"ignoring metric.reporters: {expected}"


APACHE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
}
"""As in Apache Kafka's config/server.properties."""


@pytest.mark.parametrize(
    "more", [{}, {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"}]
)
def test_listeners_of_kraft_controllers_are_neither_bound_nor_advertised(
    more: dict[str, str],
) -> None:
    settings = BrokerSettings.parse(APACHE | more)
    assert [each.name for each in settings.listeners] == ["PLAINTEXT"]
    assert [each.name for each in settings.advertised_listeners] == ["PLAINTEXT"]
    roles, names = settings.warnings
    assert roles == "ignoring process.roles: every node is a broker here"
    expected = "there is no KRaft quorum here, so CONTROLLER is not bound"
    assert names == f"ignoring controller.listener.names: {expected}"


def test_a_node_of_kraft_controllers_only_has_no_listener_left() -> None:
    only = {"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}
    with pytest.raises(InvalidSetting, match=r"all of them are in controller.listener.names"):
        BrokerSettings.parse(only)


def test_listeners_may_have_custom_names_and_overrides() -> None:
    settings = BrokerSettings.parse(
        {
            "listeners": "inside://127.0.0.1:0,OUTSIDE://[::1]:9093",
            "advertised.listeners": "OUTSIDE://example.org:443",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL",
            "listener.name.outside.ssl.client.auth": "required",
        }
    )
    inside, outside = settings.listeners
    assert (inside.name, inside.port, outside.host) == ("INSIDE", 0, "[::1]")
    assert settings.advertised_listeners[0].security_protocol == "SSL"
    assert settings.static["listener.name.outside.ssl.client.auth"] == "required"


def test_the_controller_gets_its_defaults_from_the_settings() -> None:
    controller = BrokerSettings.parse(
        {"num.partitions": "6", "delete.topic.enable": "false", "node.id": "3"}
    ).controller()
    assert (controller.node_id, controller.num_partitions) == (3, 6)
    assert not controller.delete_topics


@pytest.mark.parametrize("values", [{}, {"broker.id": "-1"}])
def test_a_cluster_member_has_an_id_or_gets_one(values: dict[str, str]) -> None:
    member = {"zookeeper.connect": "localhost:2181", **values}
    settings = BrokerSettings.parse(member)
    assert (settings.generates_id, settings.node_id) == (True, -1)
    chosen = settings.with_id(1001)
    assert (chosen.generates_id, chosen.node_id, chosen.integer("broker.id")) == (False, 1001, 1001)
    with pytest.raises(InvalidSetting, match=r"broker.id = -1: each broker of a cluster"):
        BrokerSettings.parse(member | {"broker.id.generation.enable": "false"})


def test_configured_ids_and_generated_ids_do_not_overlap() -> None:
    member = {"zookeeper.connect": "localhost:2181", "broker.id": "1001"}
    with pytest.raises(InvalidSetting, match=r"above reserved.broker.max.id = 1000"):
        BrokerSettings.parse(member)
    for more in ({"reserved.broker.max.id": "2000"}, {"broker.id.generation.enable": "false"}):
        assert BrokerSettings.parse(member | more).node_id == 1001
    assert BrokerSettings.parse({"broker.id": "1001"}).node_id == 1001  # a single node


def test_cluster_settings_give_no_warning() -> None:
    obeyed = {
        "broker.id": "3",
        "zookeeper.connect": "a:2181,b:2181/chroot",
        "zookeeper.session.timeout.ms": "6000",
        "replica.lag.time.max.ms": "10000",
        "controlled.shutdown.enable": "true",
        "auto.leader.rebalance.enable": "false",
        "leader.imbalance.check.interval.seconds": "30",
        "headrace.fast.failure.detection": "false",
        "initial.broker.registration.timeout.ms": "1000",
    }
    assert BrokerSettings.parse(obeyed).warnings == ()


def test_the_inter_broker_listener_must_be_one_of_the_listeners() -> None:
    with pytest.raises(InvalidSetting, match=r"inter.broker.listener.name = INSIDE: no listener"):
        BrokerSettings.parse({"inter.broker.listener.name": "INSIDE"})
