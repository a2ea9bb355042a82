"""The smaller admin APIs, request by request: producers, directories, features, resources."""

import logging
from collections.abc import Callable, Iterator

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_configs import (
    AlterConfigsAlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headrace.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from support.waiting import wait_for
from support.wire.batches import batch, produce
from support.wire.connection import Wire
from support.wire.topics import MakeTopic

TOPIC, BROKER, BROKER_LOGGER, UNKNOWN_KIND = 2, 4, 8, 77
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DEFAULT, DYNAMIC_BROKER_LOGGER = 1, 5, 6


def test_producers_of_a_partition_are_described(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b", producer_id=4711, producer_epoch=2, base_sequence=0))
    asked = DescribeProducersTopicRequest(name=topic, partition_indexes=[0, 9])
    request = DescribeProducersRequest(topics=[asked])
    (answer,) = wire.call(request, DescribeProducersResponse).topics
    here, nowhere = sorted(answer.partitions, key=lambda part: part.partition_index)
    (state,) = here.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (4711, 2, 1)
    assert (state.current_txn_start_offset, here.error_code) == (-1, 0)
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs_include_sizes(wire: Wire, topic: str, version: int) -> None:
    sent = batch(b"x" * 5000)
    produce(wire, topic, sent)
    asked = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0])])
    answer = wire.call(asked, DescribeLogDirsResponse, version)
    (found,) = [each for each in answer.results if each.topics]
    (partition,) = found.topics[0].partitions
    assert (found.error_code, partition.partition_size) == (0, len(sent))
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    if version >= 4:
        assert 0 < found.usable_bytes <= found.total_bytes
    everything = wire.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version)
    assert topic in {each.name for result in everything.results for each in result.topics}


def test_the_cluster_has_one_node_and_a_controller(wire: Wire) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = wire.call(request, DescribeClusterResponse)
    (node,) = answer.brokers
    assert answer.error_code == 0
    assert answer.controller_id == node.broker_id
    assert (node.is_fenced, bool(answer.cluster_id)) == (False, True)
    assert answer.cluster_authorized_operations > 0


def test_describe_cluster_for_controllers_is_rejected(wire: Wire) -> None:
    answer = wire.call(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
    assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert answer.error_message is not None and "type CONTROLLER" in answer.error_message
    answer = wire.call(DescribeClusterRequest(endpoint_type=3), DescribeClusterResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    assert answer.error_message == "Unsupported endpoint type 3"


# --- features ---------------------------------------------------------------------------------


def test_an_unknown_feature_cannot_be_updated(wire: Wire) -> None:
    update = FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
    for version in (1, 2):
        answer = wire.call(
            UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update]),
            UpdateFeaturesResponse,
            version,
        )
        codes = {answer.error_code, *(result.error_code for result in answer.results)}
        assert ErrorCode.INVALID_UPDATE_VERSION in codes


def test_an_unsupported_feature_level_is_rejected(wire: Wire) -> None:
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=99)
    answer = wire.call(
        UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update], validate_only=True),
        UpdateFeaturesResponse,
    )
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION


# --- configs ----------------------------------------------------------------------------------


def configs(
    wire: Wire,
    name: str,
    *keys: str,
    kind: int = TOPIC,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> tuple[DescribeConfigsResult, dict[str, DescribeConfigsResourceResult]]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    (result,) = wire.call(request, DescribeConfigsResponse, version).results
    return result, {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_configs_include_source_type_and_documentation(
    wire: Wire, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(1, {"retention.ms": 1234})
    asked = configs(
        *(wire, topic, "retention.ms", "segment.bytes", "no.such.config"),
        version=version,
        synonyms=True,
        documentation=version >= 3,
    )
    result, found = asked
    assert result.error_code == 0
    assert set(found) == {"retention.ms", "segment.bytes"}  # unknown names are left out
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == (
        "1234",
        DYNAMIC_TOPIC,
    )
    assert found["segment.bytes"].config_source == DEFAULT
    assert next(synonym.name for synonym in found["retention.ms"].synonyms) == "retention.ms"
    assert [synonym.name for synonym in found["segment.bytes"].synonyms] == ["log.segment.bytes"]
    if version >= 3:
        assert found["retention.ms"].config_type == 5  # LONG
        assert found["segment.bytes"].config_type == 3  # INT
        assert found["retention.ms"].documentation


def test_secrets_are_not_returned(wire: Wire) -> None:
    node = wire.call(MetadataRequest(topics=[]), MetadataResponse, 12).brokers[0].node_id
    _, found = configs(wire, str(node), kind=BROKER)
    for name, config in found.items():
        if "password" in name or name.endswith(".key"):
            assert config.is_sensitive, name
            assert config.value is None, name


def test_unknown_resources_are_rejected(wire: Wire, new_name: Callable[[], str]) -> None:
    assert configs(wire, new_name())[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert configs(wire, "not a name")[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert configs(wire, "")[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert configs(wire, "4242", kind=BROKER)[0].error_code == ErrorCode.INVALID_REQUEST
    assert configs(wire, "one", kind=BROKER)[0].error_code == ErrorCode.INVALID_REQUEST
    assert configs(wire, "x", kind=UNKNOWN_KIND)[0].error_code == ErrorCode.INVALID_REQUEST


def node_id(wire: Wire) -> str:
    return str(wire.call(MetadataRequest(topics=[]), MetadataResponse, 12).brokers[0].node_id)


def alter_loggers(
    wire: Wire, name: str, *changes: tuple[str, int, str | None], check: bool = False
) -> tuple[ErrorCode, str | None]:
    entries = [
        IncrementalAlterConfigsAlterableConfig(name=logger, config_operation=kind, value=level)
        for logger, kind, level in changes
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=name, configs=entries
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=check)
    (answer,) = wire.call(request, IncrementalAlterConfigsResponse).responses
    return ErrorCode(answer.error_code), answer.error_message


@pytest.fixture
def logger() -> Iterator[str]:
    """A logger whose level returns after the test."""
    name = "headrace.broker.network"
    yield name
    logging.getLogger(name).setLevel(logging.NOTSET)


def test_log_levels_are_described_changed_and_reset(wire: Wire, logger: str) -> None:
    node = node_id(wire)

    def level() -> str | None:
        result, found = configs(wire, node, "root", logger, "no.such.logger", kind=BROKER_LOGGER)
        assert result.error_code == 0
        assert list(found) == ["root", logger]
        assert found[logger].config_source == DYNAMIC_BROKER_LOGGER
        assert not found[logger].read_only
        return found[logger].value

    before = level()
    assert alter_loggers(wire, node, (logger, SET, "TRACE"), check=True)[0] == 0
    assert level() == before  # only validated
    assert alter_loggers(wire, node, (logger, SET, "DEBUG"))[0] == 0
    assert (level(), logging.getLogger(logger).isEnabledFor(logging.DEBUG)) == ("DEBUG", True)
    assert alter_loggers(wire, node, (logger, DELETE, None))[0] == 0
    assert level() == before


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (
            ("root", SET, "LOUD"),
            ErrorCode.INVALID_CONFIG,
            (
                "Cannot set the log level of root to LOUD as it is not a supported log level. "
                "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
            ),
        ),
        (
            ("root", DELETE, None),
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            ("root", APPEND, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            ("root", SUBTRACT, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        (("root", SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported for : root"),
    ],
)
def test_invalid_changes_of_log_levels_get_kafkas_errors(
    wire: Wire, logger: str, change: tuple[str, int, str | None], code: ErrorCode, message: str
) -> None:
    """The valid change of the same resource does not take effect."""
    before = logging.getLogger(logger).level
    found = alter_loggers(wire, node_id(wire), (logger, SET, "TRACE"), change)
    assert found == (code, message)
    assert logging.getLogger(logger).level == before


def test_log_levels_of_another_broker_are_refused(wire: Wire) -> None:
    node = node_id(wire)
    for name, described, altered in (
        ("", "Broker id must not be empty", "Node id must be an integer, but it is: "),
        (
            "one",
            "Broker id must be an integer, but it is: one",
            "Node id must be an integer, but it is: one",
        ),
        (
            "4242",
            f"Unexpected broker id, expected {node} but received 4242",
            f"Unexpected node id. Expected {node}, but received 4242",
        ),
    ):
        result, _ = configs(wire, name, kind=BROKER_LOGGER)
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, described)
        changed = alter_loggers(wire, name, ("root", SET, "INFO"))
        assert changed == (ErrorCode.INVALID_REQUEST, altered)


def test_alter_configs_does_not_change_log_levels(wire: Wire) -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=node_id(wire), configs=[]
    )
    (answer,) = wire.call(AlterConfigsRequest(resources=[resource]), AlterConfigsResponse).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "Unknown resource type 8"


def alter(
    wire: Wire, topic: str, *changes: tuple[str, int, str | None], check: bool = False
) -> int:
    entries = [
        IncrementalAlterConfigsAlterableConfig(name=name, config_operation=kind, value=value)
        for name, kind, value in changes
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=TOPIC, resource_name=topic, configs=entries
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=check)
    (answer,) = wire.call(request, IncrementalAlterConfigsResponse).responses
    return answer.error_code


def test_an_alteration_is_all_or_nothing(wire: Wire, topic: str) -> None:
    bad = alter(wire, topic, ("retention.ms", SET, "5"), ("segment.bytes", SET, "tiny"))
    assert bad == ErrorCode.INVALID_CONFIG
    assert configs(wire, topic, "retention.ms")[1]["retention.ms"].value == "604800000"


def test_validate_only_changes_nothing(wire: Wire, topic: str) -> None:
    assert alter(wire, topic, ("retention.ms", SET, "5"), check=True) == 0
    assert configs(wire, topic, "retention.ms")[1]["retention.ms"].value == "604800000"


def test_invalid_operations_are_rejected(wire: Wire, topic: str) -> None:
    assert alter(wire, topic, ("retention.ms", APPEND, "5")) == ErrorCode.INVALID_CONFIG
    assert alter(wire, topic, ("retention.ms", SET, None)) == ErrorCode.INVALID_REQUEST
    assert alter(wire, topic, ("retention.ms", 9, "5")) != 0
    twice = (("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert alter(wire, topic, *twice) == ErrorCode.INVALID_REQUEST
    assert alter(wire, f"{topic}-not", ("retention.ms", SET, "5")) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_alter_configs_replaces_all_values(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"retention.ms": 1234, "flush.ms": 99})
    resource = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[AlterConfigsAlterableConfig(name="retention.ms", value="777")],
    )
    (answer,) = wire.call(AlterConfigsRequest(resources=[resource]), AlterConfigsResponse).responses
    assert answer.error_code == 0

    def told(name: str) -> tuple[str | None, int]:
        config = configs(wire, topic, name)[1][name]
        return config.value, config.config_source

    wait_for(lambda: told("retention.ms") == ("777", DYNAMIC_TOPIC), "the new value")
    assert told("flush.ms")[1] == DEFAULT


def test_config_resources_are_listed(wire: Wire, topic: str) -> None:
    asked = ListConfigResourcesRequest(resource_types=[TOPIC, BROKER])
    answer = wire.call(asked, ListConfigResourcesResponse)
    assert answer.error_code == 0
    found = {(each.resource_type, each.resource_name) for each in answer.config_resources}
    node = wire.call(MetadataRequest(topics=[]), MetadataResponse, 12).brokers[0].node_id
    assert {(TOPIC, topic), (BROKER, str(node))} <= found
    unknown = ListConfigResourcesRequest(resource_types=[UNKNOWN_KIND])
    assert wire.call(unknown, ListConfigResourcesResponse).error_code == (
        ErrorCode.UNSUPPORTED_VERSION
    )
