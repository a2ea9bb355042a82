"""Values of a schema registry, which is a small HTTP server here."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fastavro
import pytest

from headrace.console.messages.decoding import Coding, Decoder
from headrace.console.messages.query import JsonFilter
from headrace.console.messages.registry import SchemaRegistry

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
PROTO = """syntax = "proto3"; package shop;
message Other { string a = 1; }
message Order { int64 id = 1; string note = 2; }"""
SCHEMAS = {
    1: {"schema": json.dumps(AVRO)},
    2: {"schemaType": "PROTOBUF", "schema": PROTO},
    3: {"schemaType": "JSON", "schema": "{}"},
}


class Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        schema = SCHEMAS.get(int(self.path.rsplit("/", 1)[1]))
        self.send_response(200 if schema else 404)
        self.end_headers()
        self.wfile.write(json.dumps(schema or {}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    """A decoder with a registry on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Decoder(SchemaRegistry(f"http://127.0.0.1:{server.server_port}/"))
    server.shutdown()
    thread.join()
    server.server_close()


def with_prefix(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


def avro(order: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), order)  # type: ignore[arg-type]
    return with_prefix(1, out.getvalue())


@pytest.mark.parametrize("coding", [Coding.AUTO, Coding.REGISTRY])
def test_avro_is_decoded_by_its_schema(decoder: Decoder, coding: Coding) -> None:
    data = avro({"id": 7, "note": "x"})
    decoded = decoder.decode(data, coding)
    assert decoded.kind == "Avro 1"
    assert decoded.object == {"id": 7, "note": "x"}
    assert JsonFilter("@.id == 7").matches(decoder.object_of(data, coding)[1])


def test_protobuf_is_decoded_by_its_schema_and_message(decoder: Decoder) -> None:
    body = b"\x08\x07\x12\x01x"
    decoded = decoder.decode(with_prefix(2, b"\x02\x02" + body), Coding.AUTO)
    assert decoded.kind == "Protobuf 2"
    assert decoded.object == {"id": "7", "note": "x"}


def test_json_of_a_schema_is_decoded(decoder: Decoder) -> None:
    assert decoder.decode(with_prefix(3, b'{"a": 1}'), Coding.AUTO).object == {"a": 1}


@pytest.mark.parametrize(
    "data",
    [with_prefix(9, b"x"), with_prefix(1, b"\xff" * 20), with_prefix(2, b"\x7f"), b"no prefix"],
)
def test_what_cannot_be_decoded_is_shown_as_it_is_with_the_reason(
    decoder: Decoder, data: bytes
) -> None:
    decoded = decoder.decode(data, Coding.REGISTRY)
    assert decoded.kind in ("binary", "text")
    assert decoded.note
    assert not decoded.has_object
