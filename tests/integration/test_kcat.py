"""kcat against one broker: metadata, producing, consuming, offsets."""

import json

import pytest

from support.clients.kcat import kcat, needs_kcat
from support.wire.topics import MakeTopic

pytestmark = needs_kcat


def test_metadata_is_listed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    listed = json.loads(kcat(bootstrap, "-L", "-J"))
    assert len(listed["brokers"]) == 1
    (found,) = [one for one in listed["topics"] if one["topic"] == topic]
    assert [part["partition"] for part in found["partitions"]] == [0, 1, 2]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_lines_are_consumed(bootstrap: str, topic: str, codec: str) -> None:
    lines = [f"key{number}:line {number}" for number in range(300)]
    stdin = "\n".join(lines) + "\n"
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", codec, "-H", "from=kcat", stdin=stdin)
    out = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-K:")
    assert out.splitlines() == lines


def test_offsets_can_be_given_from_the_end_and_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="a\nb\nc\n")
    last_two = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q")
    assert last_two == "b\nc\n"
    since = kcat(bootstrap, "-C", "-t", topic, "-o", "s@1000", "-e", "-q")
    assert since == "a\nb\nc\n"
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:1000").strip().endswith("offset 0")


def test_kcat_can_produce_idempotently(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-X", "enable.idempotence=true", stdin="a\nb\n")
    assert kcat(bootstrap, "-C", "-t", topic, "-e", "-q") == "a\nb\n"
