"""The developer's tool prints declarations that this package can use."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "print_messages.py"

REQUEST = {
    "apiKey": 900,
    "type": "request",
    "name": "PingRequest",
    "validVersions": "1-3",
    "flexibleVersions": "2+",
    "fields": [
        {"name": "TimeoutMs", "type": "int32", "versions": "0+", "default": "0x10"},
        {"name": "Gone", "type": "string", "versions": "0"},
        {"name": "Old", "type": "bool", "versions": "0-1", "ignorable": True},
        {
            "name": "Hosts",
            "type": "[]Host",
            "versions": "1+",
            "nullableVersions": "2+",
            "fields": [{"name": "TopicIds", "type": "[]uuid", "versions": "1+"}],
        },
        {
            "name": "Rack",
            "type": "string",
            "versions": "2+",
            "nullableVersions": "2+",
            "taggedVersions": "2+",
            "tag": 0,
            "default": "null",
        },
    ],
}
RESPONSE = {**REQUEST, "type": "response", "name": "PingResponse", "fields": []}

EXPECTED = '''"""Ping (key 900): versions 1-3, flexible from 2."""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int32, nullable_string, uuid


class Host(Struct):
    topic_ids: list[uuid] = field(default_factory=list)


class PingRequest(Struct, versions=(1, 3), flexible_since=2):
    timeout_ms: int32 = 16
    old: boolean = field(until=1, ignorable=True, default=False)
    hosts: list[Host] | None = field(nullable_since=2, default_factory=list)
    rack: nullable_string = field(since=2, tag=0, default=None)


class PingResponse(Struct, versions=(1, 3), flexible_since=2):
    pass
'''


def test_a_schema_becomes_a_module_without_what_no_version_has(tmp_path: Path) -> None:
    jar = tmp_path / "clients.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for message in (REQUEST, RESPONSE):
            text = "// a comment\n" + json.dumps(message)
            archive.writestr(f"common/message/{message['name']}.json", text)
    done = subprocess.run(
        [sys.executable, TOOL, jar, "Ping"], capture_output=True, text=True, check=True
    )
    assert done.stdout == EXPECTED
