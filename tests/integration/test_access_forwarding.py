"""Requests that a broker forwards to the controller: both brokers authorize the client."""

from collections.abc import Iterator
from typing import Final

import pytest

from headrace.broker.membership.envelopes import wrap_request
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_configs import (
    AlterConfigsAlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.principal import user
from headrace.security.session import Session
from headrace.testing import Broker, Cluster
from support.security.access import (
    AUTHORIZER,
    SUPER_USER,
    act_as,
    allow,
    allow_on_cluster,
    grant,
)
from support.waiting import wait_for
from support.wire.connection import Wire, request_frame

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC: Final = AclResourceType.TOPIC
OTHER_LISTENER: Final = "CLIENTS"
# The brokers of this cluster do not authenticate at each other.
SETTINGS: Final = {**AUTHORIZER, "super.users": f"User:{SUPER_USER};User:ANONYMOUS"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, settings=SETTINGS) as cluster:
        yield cluster


def _is_controller(broker: Broker) -> bool:
    node = broker.node
    return node is not None and broker.on_loop(lambda: node.is_controller)


@pytest.fixture
def controller(cluster: Cluster) -> Broker:
    return wait_for(
        lambda: next(filter(_is_controller, cluster.brokers.values()), None), "a controller"
    )


@pytest.fixture
def other(cluster: Cluster, controller: Broker) -> Broker:
    """The broker that forwards."""
    return next(each for each in cluster.brokers.values() if each is not controller)


def _create(broker: Broker, name: str, topic: str, *, client_id: str = "tests") -> int:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]
    )
    spec = APIS[ApiKey.CREATE_TOPICS]
    with Wire(broker.bootstrap_servers) as wire:
        act_as(broker, wire, name)
        wire.send_bytes(request_frame(request, spec.max_version, client_id=client_id))
        _, answer = wire.receive(spec, spec.max_version)
    assert isinstance(answer, CreateTopicsResponse)
    return answer.topics[0].error_code


def test_a_forwarded_request_acts_as_its_client(controller: Broker, other: Broker) -> None:
    grant(controller, allow("alice", AclOperation.CREATE, TOPIC, "hers"))
    assert _create(other, "alice", "hers") == ErrorCode.NONE
    assert _create(other, "alice", "not-hers") == DENIED
    assert _create(other, "bob", "not-hers") == DENIED
    assert _create(other, SUPER_USER, "not-hers") == ErrorCode.NONE


def test_the_controller_authorizes_what_another_broker_forwards(
    other: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first broker's ACLs may be older."""
    node = other.node
    assert node is not None
    monkeypatch.setattr(node.access, "allows", lambda *_: True)
    monkeypatch.setattr(node.access, "shows", lambda *_: True)
    assert _create(other, "mallory", "late") == DENIED


def test_the_client_id_of_a_broker_proves_nothing(controller: Broker, other: Broker) -> None:
    for broker in (controller, other):
        assert _create(broker, "mallory", "forged", client_id="headrace-broker-1") == DENIED


def test_configs_are_changed_as_the_client(controller: Broker, other: Broker) -> None:
    assert _create(other, SUPER_USER, "tuned") == ErrorCode.NONE
    config = AlterConfigsAlterableConfig(name="retention.ms", value="1000")
    request = AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name="tuned", configs=[config])]
    )
    with Wire(other.bootstrap_servers) as wire:
        act_as(other, wire, "carol")
        (result,) = wire.call(request, AlterConfigsResponse).responses
        assert result.error_code == DENIED
        grant(controller, allow("carol", AclOperation.ALTER_CONFIGS, TOPIC, "tuned"))

        def altered() -> bool:  # the other broker may not have the ACL yet
            (result,) = wire.call(request, AlterConfigsResponse).responses
            return result.error_code == ErrorCode.NONE

        wait_for(altered, "the config is altered")


def test_a_topic_is_auto_created_by_the_broker(controller: Broker, other: Broker) -> None:
    """The client's right is checked where it asks; the broker then acts itself."""
    grant(
        controller,
        allow("dave", AclOperation.DESCRIBE, TOPIC, "made"),
        allow("dave", AclOperation.CREATE, TOPIC, "made"),
    )
    request = MetadataRequest(topics=[MetadataRequestTopic(name="made")])
    with Wire(other.bootstrap_servers) as wire:
        act_as(other, wire, "dave")

        def created() -> bool:
            return wire.call(request, MetadataResponse).topics[0].error_code == ErrorCode.NONE

        wait_for(created, "the topic is created")


def _forged() -> EnvelopeRequest:
    spec = APIS[ApiKey.CREATE_TOPICS]
    request = CreateTopicsRequest(topics=[CreatableTopic(name="forged", num_partitions=1)])
    admin = Session(user(SUPER_USER), "127.0.0.1", "PLAINTEXT")
    return wrap_request(spec, request, spec.max_version, "", admin)


@pytest.mark.parametrize("listener", [None, OTHER_LISTENER])
def test_only_brokers_may_speak_for_others(controller: Broker, listener: str | None) -> None:
    """An envelope needs CLUSTER_ACTION, and the listener between brokers."""
    name = "eve" if listener is None else "a-broker"
    grant(controller, allow_on_cluster("a-broker", AclOperation.CLUSTER_ACTION))
    with Wire(controller.bootstrap_servers) as wire:
        act_as(controller, wire, name, listener=listener)
        answer = wire.call(_forged(), EnvelopeResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.response_data is None


def test_a_broker_that_is_not_the_controller_refuses_envelopes(other: Broker) -> None:
    with Wire(other.bootstrap_servers) as wire:
        act_as(other, wire, SUPER_USER)
        answer = wire.call(_forged(), EnvelopeResponse)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_an_invalid_envelope_is_refused(controller: Broker) -> None:
    with Wire(controller.bootstrap_servers) as wire:
        act_as(controller, wire, SUPER_USER)
        answer = wire.call(EnvelopeRequest(), EnvelopeResponse)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert wire.call(_forged(), EnvelopeResponse).error_code == ErrorCode.NONE
