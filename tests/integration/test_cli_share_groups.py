"""`headrace share` against a real broker."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli.command import Cli
from support.waiting import wait_for
from support.wire.batches import topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import (
    ShareMember,
    join_share_group,
    leave_share_group,
    set_group_config,
)

DEADLINE_S = 60.0
LOCK_S = 30
NewName = Callable[[], str]


@pytest.fixture
def cli(bootstrap: str, tmp_path: Path) -> Cli:
    return Cli(bootstrap, tmp_path)


def test_a_share_group_is_listed_described_reset_and_deleted(
    cli: Cli, wire: Wire, topic: str, new_name: NewName
) -> None:
    group = new_name()
    cli.ok("produce", topic, stdin="a\nb\nc\n")
    set_group_config(wire, group, share_auto_offset_reset="earliest")
    member = join_share_group(wire, group, topic)
    assert re.search(rf"^{group} +share ", cli.ok("share", "list"), re.MULTILINE)
    assert group not in cli.ok("group", "list")
    described = cli.ok("share", "describe", group)
    assert member in described
    assert "LOCKED BY" not in described
    share = ShareMember(wire, group, topic_id_of(wire, topic), member)
    wait_for(share.acquire, "a fetch", deadline_s=DEADLINE_S)
    (facts,) = json.loads(cli.ok("share", "describe", group, "--format", "json"))
    (locked,) = facts["partitions"]
    assert (locked["locked"], locked["omitted_locks"]) == (3, 0)
    assert {lock["member"] for lock in locked["locks"]} == {member}
    assert {lock["deliveries"] for lock in locked["locks"]} == {1}
    assert all(0 < lock["expires_seconds"] <= LOCK_S for lock in locked["locks"])
    assert locked["in_flight"]["locked"] == 3
    described = cli.ok("share", "describe", group)
    assert re.search(rf"^{topic} +0 +0 +\d +{member} +1 ", described, re.MULTILINE)
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
