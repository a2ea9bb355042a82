"""`headrace share` against a real broker."""

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from support.cli.command import Cli
from support.waiting import wait_for
from support.wire.connection import Wire

DEADLINE_S = 60.0
LEAVING = -1
NewName = Callable[[], str]


@pytest.fixture
def cli(bootstrap: str, tmp_path: Path) -> Cli:
    return Cli(bootstrap, tmp_path)


def join_share_group(wire: Wire, group: str, topic: str) -> str:
    """Joins until the member has partitions; returns its id."""
    member = str(uuid.uuid4())
    wire.call(FindCoordinatorRequest(coordinator_keys=[group]), FindCoordinatorResponse, 6)

    def joined() -> bool:
        answer = wire.call(
            ShareGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[topic]
            ),
            ShareGroupHeartbeatResponse,
        )
        return answer.error_code == ErrorCode.NONE and answer.assignment is not None

    wait_for(joined, "the member has an assignment", deadline_s=DEADLINE_S)
    return member


def leave_share_group(wire: Wire, group: str, member: str) -> None:
    request = ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=LEAVING)
    assert wire.call(request, ShareGroupHeartbeatResponse).error_code == 0


def test_a_share_group_is_listed_described_reset_and_deleted(
    cli: Cli, wire: Wire, topic: str, new_name: NewName
) -> None:
    group = new_name()
    cli.ok("produce", topic, stdin="a\nb\nc\n")
    member = join_share_group(wire, group, topic)
    assert re.search(rf"^{group} +share ", cli.ok("share", "list"), re.MULTILINE)
    assert group not in cli.ok("group", "list")
    described = cli.ok("share", "describe", group)
    assert member in described
    busy = cli("share", "seek", group, "--to", "beginning", "--topic", topic, "--execute")
    assert busy.code == 1
    assert "stop its consumers" in busy.stderr
    leave_share_group(wire, group, member)
    shown = cli("share", "seek", group, "--to", "1", "--topic", topic)
    assert shown.code == 0
    assert "--execute" in shown.stderr
    cli.ok("share", "seek", group, "--to", "1", "--topic", topic, "--execute")
    (facts,) = json.loads(cli.ok("share", "describe", group, "--format", "json"))
    assert [(each["topic"], each["start_offset"]) for each in facts["partitions"]] == [(topic, 1)]
    cli.ok("share", "delete", group, "--topic", topic, "--execute")
    (forgotten,) = json.loads(cli.ok("share", "describe", group, "--format", "json"))
    assert forgotten["partitions"] == []
    assert "use headrace share" in cli("group", "describe", group).stderr
    assert cli.ok("share", "delete", group, "--execute") == f"deleted share group {group}\n"
    assert cli("share", "describe", group).code == 4
