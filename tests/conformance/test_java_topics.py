"""TopicCommand: create, list, describe, alter, delete."""

from collections.abc import Callable

import pytest

from support.clients.java import ToolFailed
from support.waiting import wait_for

TOPICS = "org.apache.kafka.tools.TopicCommand"
Tool = Callable[..., str]


def test_a_topic_is_created_described_altered_and_deleted(tool: Tool, name: str) -> None:
    created = tool(
        *(TOPICS, "--create", "--topic", name, "--partitions", "3"),
        *("--replication-factor", "1", "--config", "retention.ms=3600000"),
    )
    assert f"Created topic {name}." in created
    assert name in tool(TOPICS, "--list").split()

    described = tool(TOPICS, "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=3600000" in described
    assert "TopicId: " in described
    assert described.count("Leader: ") == 3

    tool(TOPICS, "--alter", "--topic", name, "--partitions", "5")
    assert "PartitionCount: 5" in tool(TOPICS, "--describe", "--topic", name)

    tool(TOPICS, "--delete", "--topic", name)
    wait_for(lambda: name not in tool(TOPICS, "--list").split(), "the topic is gone")


def test_defaults_and_existing_topics(tool: Tool, name: str) -> None:
    tool(TOPICS, "--create", "--topic", name)
    with pytest.raises(ToolFailed, match="already exists"):
        tool(TOPICS, "--create", "--topic", name)
    tool(TOPICS, "--create", "--if-not-exists", "--topic", name)
    with pytest.raises(ToolFailed, match="does not exist"):
        tool(TOPICS, "--describe", "--topic", f"{name}-not")


def test_invalid_requests_get_kafkas_messages(tool: Tool, name: str) -> None:
    with pytest.raises(ToolFailed, match="replication factor"):
        tool(TOPICS, "--create", "--topic", name, "--replication-factor", "3")
    tool(TOPICS, "--create", "--topic", name, "--partitions", "2")
    with pytest.raises(ToolFailed, match="partition"):
        tool(TOPICS, "--alter", "--topic", name, "--partitions", "1")
    with pytest.raises(ToolFailed, match=r"no\.such"):
        tool(TOPICS, "--create", "--topic", f"{name}-2", "--config", "no.such=1")


def test_under_replicated_and_unavailable_filters_are_empty(tool: Tool, name: str) -> None:
    tool(TOPICS, "--create", "--topic", name)
    for filtered in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert name not in tool(TOPICS, "--describe", filtered)
