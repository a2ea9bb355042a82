"""Avro and Protobuf by file and by registry; a bad record gets an error class and stops nothing."""

import base64
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from headrace.pipeline.formats import avro, protobuf
from headrace.pipeline.formats.arrow_decoding import DecodeTask, SideTask, arrow_type
from headrace.pipeline.formats.avro import AvroDecoder
from headrace.pipeline.formats.decoder import Decoder, Undecodable
from headrace.pipeline.formats.errors import FormatError, RegistryError, RegistryUnreachable
from headrace.pipeline.formats.protobuf import ProtobufDecoder
from headrace.pipeline.formats.schema import to_ddl
from headrace.pipeline.formats.schema_registry import Access, access_of
from headrace.pipeline.spec.formats import Avro, Protobuf, Registry
from headrace.pipeline.spec.spec_values import Settings

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}
ROW: dict[str, object] = {
    "id": 5,
    "name": "x",
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "price": Decimal("12.50"),
    "tags": ["a", "b"],
    "kind": "B",
    "counts": {"k": 1},
}
PROTO = """
syntax = "proto3";  // a comment
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
option java_package = "x.y";
message Other { string a = 1; }
message Order {
  reserved 9, 11 to 12;
  enum Kind { UNKNOWN = 0; BIG = 1 [deprecated = true]; }
  message Line { string sku = 1; int32 count = 2; }
  int64 id = 1;
  optional string name = 2;
  google.protobuf.Timestamp at = 3;
  repeated Line lines = 4;
  map<string, int32> counts_by = 5;
  Kind kind = 6;
  oneof how { string card = 7; bytes cash = 8; }
  uint64 large = 10;
  google.protobuf.Int32Value maybe = 13;
}
"""


def avro_bytes(row: dict[str, object], schema: object = ORDER) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)  # type: ignore[arg-type]
    return out.getvalue()


def error_of(decoder: Decoder, data: bytes) -> str:
    with pytest.raises(Undecodable) as caught:
        decoder.decode(data)
    return str(caught.value.kind)


@contextmanager
def registry(answers: dict[str, object]) -> Iterator[str]:
    """A schema registry that knows these paths; a number is an HTTP status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path, 404)
            self.send_response(answer if isinstance(answer, int) else 200)
            body = json.dumps({} if isinstance(answer, int) else answer).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def order_avro(tmp_path: Path) -> Path:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER), encoding="utf-8")
    return file


def test_avro_by_file(order_avro: Path) -> None:
    text, columns = avro.reader_schema(Avro(schema=str(order_avro)), "")
    assert to_ddl(columns) == (
        "`id` bigint, `name` string, `at` timestamp, `price` decimal(6,2), `tags` array<string>, "
        "`kind` string, `counts` map<string,int>"
    )
    assert AvroDecoder(text, None).decode(avro_bytes(ROW)) == ROW


def test_every_truncation_of_avro_is_a_bad_record(order_avro: Path) -> None:
    text, _ = avro.reader_schema(Avro(schema=str(order_avro)), "")
    data = avro_bytes(ROW)
    for length in range(len(data)):
        assert error_of(AvroDecoder(text, None), data[:length]) == "NotAvro"
    assert error_of(AvroDecoder(text, None), data + b"\0") == "NotAvro"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not an Avro schema"),
        ('"string"', "of a record"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "x"}]}', "not an Avro"),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":["int","string"]}]}',
            "union of several",
        ),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":["null","r"]}]}',
            "holds itself",
        ),
    ],
)
def test_avro_without_columns_is_rejected(tmp_path: Path, schema: str, message: str) -> None:
    file = tmp_path / "s.avsc"
    file.write_text(schema, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        avro.reader_schema(Avro(schema=str(file)), "")


def test_avro_by_registry_reads_old_schemas_as_the_newest() -> None:
    old = {**ORDER, "fields": [each for each in ORDER["fields"] if each["name"] != "name"]}  # type: ignore[index]
    other = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    answers = {
        "/subjects/orders-value/versions/latest": {"id": 2, "schema": json.dumps(ORDER)},
        "/schemas/ids/1": {"schema": json.dumps(old)},
        "/schemas/ids/2": {"schema": json.dumps(ORDER)},
        "/schemas/ids/3": {"schema": json.dumps(other)},
    }
    with registry(answers) as url:
        given = Avro(registry=Registry(url=url))
        text, _ = avro.reader_schema(given, "orders-value")
        decoder = AvroDecoder(text, Access(url))
        assert decoder.decode(b"\0\0\0\0\2" + avro_bytes(ROW)) == ROW
        assert decoder.decode(b"\0\0\0\0\1" + avro_bytes(ROW, old)) == {**ROW, "name": None}
        assert error_of(decoder, b"\0\0\0\0\3" + avro_bytes({"id": "x"}, other)) == "SchemaMismatch"
        assert error_of(decoder, b"\0\0\0\0\x63" + avro_bytes(ROW)) == "UnknownSchemaId"
        assert error_of(decoder, b"\1\0\0\0\2" + avro_bytes(ROW)) == "NotAvro"
        assert error_of(decoder, b"\0\0") == "NotAvro"


def test_an_unavailable_registry_stops_the_batch_without_bad_records(
    order_avro: Path,
) -> None:
    text, _ = avro.reader_schema(Avro(schema=str(order_avro)), "")
    with registry({"/schemas/ids/7": 500, "/schemas/ids/8": 401}) as url:
        with pytest.raises(RegistryUnreachable, match="answers 500"):
            AvroDecoder(text, Access(url)).decode(b"\0\0\0\0\7")
        with pytest.raises(RegistryError, match="refuses access"):
            AvroDecoder(text, Access(url)).decode(b"\0\0\0\0\x08")
        with pytest.raises(FormatError, match="no version latest of the subject a-value"):
            avro.reader_schema(Avro(registry=Registry(url=url)), "a-value")
    with pytest.raises(RegistryUnreachable, match="does not answer"):
        AvroDecoder(text, Access(url)).decode(b"\0\0\0\0\7")


def test_registry_credentials_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2")
    auth = Settings({"username": "me", "password": "${REGISTRY_PASSWORD}"})
    access = access_of(Registry(url="http://registry:8081/", auth=auth))
    assert access.authorization == "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert access.url == "http://registry:8081"
    assert "Basic" not in repr(access)


def proto_file(tmp_path: Path, text: str = PROTO) -> str:
    file = tmp_path / "order.proto"
    file.write_text(text, encoding="utf-8")
    return str(file)


def order_bytes(text: str) -> bytes:
    """An order with every field set."""
    files = FileDescriptorSet.FromString(base64.b64decode(json.loads(text)["files"])).file
    pool = protobuf._pool(files)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    order.id, order.name, order.kind, order.card, order.large = 5, "x", 1, "c", 2**64 - 1
    order.at.FromDatetime(datetime(2026, 1, 2, tzinfo=UTC))
    order.lines.add(sku="s", count=2)
    order.counts_by["k"] = 3
    order.maybe.value = 0
    data: bytes = order.SerializeToString(deterministic=True)
    return data


ORDER_ROW = {
    "id": 5,
    "name": "x",
    "at": datetime(2026, 1, 2, tzinfo=UTC),
    "lines": [{"sku": "s", "count": 2}],
    "counts_by": [("k", 3)],
    "kind": "BIG",
    "card": "c",
    "cash": None,
    "large": 2**64 - 1,
    "maybe": 0,
}


def test_protobuf_by_proto_file(tmp_path: Path) -> None:
    text, columns = protobuf.reader_schema(
        Protobuf(schema=proto_file(tmp_path), message="shop.Order"), ""
    )
    assert to_ddl(columns) == (
        "`id` bigint, `name` string, `at` timestamp, "
        "`lines` array<struct<`sku`:string,`count`:int>>, `counts_by` map<string,int>, "
        "`kind` string, `card` string, `cash` binary, `large` decimal(20,0), `maybe` int"
    )
    decoder = ProtobufDecoder(text, None)
    assert decoder.decode(order_bytes(text)) == ORDER_ROW
    empty = decoder.decode(b"")
    assert (empty["id"], empty["name"], empty["at"], empty["maybe"]) == (0, None, None, None)
    assert error_of(decoder, order_bytes(text)[:-1]) == "NotProtobuf"
    assert error_of(decoder, b"\xff\xff\xff") == "NotProtobuf"


def test_protobuf_by_descriptor_set(tmp_path: Path) -> None:
    given = Protobuf(schema=proto_file(tmp_path), message="shop.Order")
    text, columns = protobuf.reader_schema(given, "")
    file = tmp_path / "order.desc"
    file.write_bytes(base64.b64decode(json.loads(text)["files"]))
    assert protobuf.reader_schema(Protobuf(schema=str(file), message="shop.Order"), "") == (
        text,
        columns,
    )


@pytest.mark.parametrize(
    ("text", "message", "reason"),
    [
        (PROTO, None, "set message: to one of shop.Other, shop.Order"),
        (PROTO, "shop.Nothing", "no message shop.Nothing"),
        ('syntax = "proto3"; message A { A a = 1; }', None, "holds itself"),
        ('syntax = "proto3"; message A { B b = 1; }', None, "does not fit together"),
        ('syntax = "proto3"; message A {', None, "line 1: the end is unexpected"),
        ("hello", None, "not a .proto file: line 1: 'hello'"),
        ('syntax = "proto3";\n/*\n*/message A {\n string a = x; }', None, "line 4: 'x'"),
        ('syntax = "proto3";\n\nmessage A { ? }', None, "line 3: '\\?'"),
        ('syntax = "proto3"; import "b.proto"; message A { string a = 1; }', None, "b.proto"),
    ],
)
def test_protobuf_without_columns_is_rejected(
    tmp_path: Path, text: str, message: str | None, reason: str
) -> None:
    with pytest.raises(FormatError, match=reason):
        protobuf.reader_schema(Protobuf(schema=proto_file(tmp_path, text), message=message), "")


def test_protobuf_by_registry_uses_the_message_indexes() -> None:
    answer = {"id": 4, "schemaType": "PROTOBUF", "schema": PROTO}
    answers = {"/subjects/o-value/versions/latest": answer, "/schemas/ids/4": answer}
    with registry(answers) as url:
        given = Protobuf(registry=Registry(url=url), message="shop.Order")
        text, _ = protobuf.reader_schema(given, "o-value")
        decoder = ProtobufDecoder(text, Access(url))
        body, head = order_bytes(text), b"\0\0\0\0\4"
        assert decoder.decode(head + b"\2\2" + body) == ORDER_ROW
        assert error_of(decoder, head + b"\0" + body) == "SchemaMismatch"  # [0] is Other
        assert error_of(decoder, head + b"\4\2\0" + body) == "SchemaMismatch"  # Order.Line
        assert error_of(decoder, head) == "NotProtobuf"
        assert error_of(decoder, head + b"\xff") == "NotProtobuf"
        assert error_of(decoder, b"\0\0\0\0\x09\0" + body) == "UnknownSchemaId"


def test_one_bad_record_does_not_fail_its_batch(order_avro: Path) -> None:
    text, columns = avro.reader_schema(Avro(schema=str(order_avro)), "")
    make: Callable[[object], bytes] = lambda price: avro_bytes({**ROW, "price": price})  # noqa: E731
    wide = {**ORDER, "fields": json.loads(json.dumps(ORDER["fields"]))}
    wide["fields"][3]["type"]["precision"] = 20  # type: ignore[index]
    values = [
        make(Decimal("1.00")),
        b"\1",
        None,
        avro_bytes({**ROW, "price": Decimal("123456789.00")}, wide),
        b"x" * 2000,
    ]
    side = SideTask("value", "out", AvroDecoder(text, None), arrow_type(columns), 1000)
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    (made,) = DecodeTask((side,))(iter([batch]))
    rows = made.column("out").to_pylist()
    assert [row["error"] for row in rows] == [None, "NotAvro", None, "OutOfRange", None]
    assert rows[0]["columns"]["price"] == Decimal("1.00")
    assert rows[2]["columns"] is None
