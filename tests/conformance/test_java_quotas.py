"""Client quotas, as Kafka's own ConfigCommand sets, shows and removes them."""

from collections.abc import Sequence

import pytest

from headrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from support.clients.java import KafkaNode, run
from support.wire.connection import Wire
from support.wire.quotas import alter_quotas, alteration

CONFIGS = "kafka.admin.ConfigCommand"
ALICE_APP = ("--entity-type", "users", "--entity-name", "alice",
             "--entity-type", "clients", "--entity-name", "app")  # fmt: skip


def tool(servers: str, *words: str) -> str:
    return run(CONFIGS, "--bootstrap-server", servers, *words)


def test_kafkas_tool_sets_shows_and_removes_the_quotas_of_users_and_clients(
    bootstrap: str,
) -> None:
    limits = "producer_byte_rate=1024,request_percentage=12.5"
    tool(bootstrap, "--alter", *ALICE_APP, "--add-config", limits)
    shown = tool(bootstrap, "--describe", *ALICE_APP)
    assert "Quota configs for user-principal 'alice', client-id 'app' are" in shown
    assert "producer_byte_rate=1024.0" in shown
    assert "request_percentage=12.5" in shown
    tool(
        bootstrap,
        *("--alter", *ALICE_APP, "--delete-config", "producer_byte_rate,request_percentage"),
    )
    assert "producer_byte_rate" not in tool(bootstrap, "--describe", *ALICE_APP)


def test_kafkas_tool_sets_and_shows_the_quota_of_all_addresses(bootstrap: str) -> None:
    default = ("--entity-type", "ips", "--entity-default")
    tool(bootstrap, "--alter", *default, "--add-config", "connection_creation_rate=20")
    shown = tool(bootstrap, "--describe", *default)
    assert "Quota configs for the default ip are connection_creation_rate=20.0" in shown
    tool(bootstrap, "--alter", *default, "--delete-config", "connection_creation_rate")


ALTERATIONS: Sequence[tuple[Sequence[tuple[str, str | None]], dict[str, float | None]]] = (
    ([("user", "alice")], {"producer_byte_rate": 1024.0}),
    ([("user", None), ("client-id", "app")], {"request_percentage": 0.5}),
    ([("client-id", None)], {"controller_mutation_rate": 1.5}),
    ([("ip", "10.0.0.1")], {"connection_creation_rate": 7.0}),
    ([("ip", None)], {"connection_creation_rate": 7.0}),
    ([("user", "bob")], {"producer_byte_rate": None}),
    ([("user", "bob")], {"producer_byte_rate": 1.5}),
    ([("user", "bob")], {"producer_byte_rate": 0.0}),
    ([("user", "bob")], {"consumer_byte_rate": -1.0}),
    ([("user", "bob")], {"connection_creation_rate": 1.0}),
    ([("user", "bob")], {"unknown": 1.0}),
    ([("user", "bob"), ("ip", "10.0.0.1")], {"producer_byte_rate": 1.0}),
    ([("ip", "10.0.0.1")], {"producer_byte_rate": 1.0}),
    ([("ip", "not an address")], {"connection_creation_rate": 1.0}),
    ([("user", "")], {"producer_byte_rate": 1.0}),
    ([("planet", "mars")], {"producer_byte_rate": 1.0}),
    ([], {"producer_byte_rate": 1.0}),
)
FILTERS: Sequence[tuple[Sequence[ComponentData], bool]] = (
    ([], False),
    ([], True),
    ([ComponentData(entity_type="user", match_type=0, match="alice")], True),
    ([ComponentData(entity_type="user", match_type=1, match=None)], False),
    ([ComponentData(entity_type="user", match_type=2, match=None)], False),
    ([ComponentData(entity_type="ip", match_type=2, match=None)], True),
    ([ComponentData(entity_type="user", match_type=0, match=None)], False),
    ([ComponentData(entity_type="user", match_type=1, match="alice")], False),
    ([ComponentData(entity_type="user", match_type=7, match=None)], False),
    ([ComponentData(entity_type="planet", match_type=0, match="mars")], False),
    ([ComponentData(entity_type="", match_type=0, match="alice")], False),
)


def outcomes(servers: str) -> tuple[list[int], list[object]]:
    """The codes of all changes, and what each filter lists afterwards."""
    with Wire(servers) as wire:
        codes = [
            alter_quotas(wire, alteration(entity, **limits)).entries[0].error_code
            for entity, limits in ALTERATIONS
        ]
        found = [listed(wire, components, strict) for components, strict in FILTERS]
        for entity, limits in ALTERATIONS:
            alter_quotas(wire, alteration(entity, **dict.fromkeys(limits)))
    return codes, found


def listed(wire: Wire, components: Sequence[ComponentData], strict: bool) -> object:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    answer = wire.call(request, DescribeClientQuotasResponse)
    if answer.error_code:
        return answer.error_code
    return sorted(
        (
            sorted((part.entity_type, part.entity_name or "") for part in entry.entity),
            sorted((each.key, each.value) for each in entry.values),
        )
        for entry in answer.entries or ()
    )


@pytest.mark.usefixtures("kafka_lib")
def test_changes_and_filters_have_the_outcomes_of_kafka(bootstrap: str, kafka: KafkaNode) -> None:
    assert outcomes(bootstrap) == outcomes(kafka.bootstrap_servers)
