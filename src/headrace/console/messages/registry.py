"""Values written with a schema registry: Avro and Protobuf. Blocking; for worker threads.

The libraries are those of pipelines and are imported at the first use: a console without a registry
does not load them.
"""

import json
from typing import TYPE_CHECKING, Any

from headrace.console.messages.decoding import UndecodableValue

if TYPE_CHECKING:
    from headrace.pipeline.formats.schema_registry import Access


class SchemaRegistry:
    """Decodes values by the schema whose id they begin with."""

    def __init__(self, url: str, authorization: str = "") -> None:
        self._url = url
        self._authorization = authorization

    def decode(self, data: bytes) -> tuple[str, object]:
        """`Avro 7` or `Protobuf 7` and the value; raises `UndecodableValue`."""
        try:
            return self._decoded(data)
        except ImportError as error:
            raise UndecodableValue(
                f"{error.name} is not installed: pip install 'headrace[pipeline]'"
            ) from None
        except UndecodableValue:
            raise
        except Exception as error:  # the registry, its schemas and the value are all foreign
            raise UndecodableValue(f"{type(error).__name__}: {error}"[:300]) from None

    def _decoded(self, data: bytes) -> tuple[str, object]:
        from headrace.pipeline.formats.schema_registry import client_of, split_prefix

        access = self._access()
        schema_id, body = split_prefix(data)
        kind = client_of(access).by_id(schema_id).kind
        if kind == "AVRO":
            from headrace.pipeline.formats.avro import read_registered

            return f"Avro {schema_id}", read_registered(access, data)
        if kind == "PROTOBUF":
            from google.protobuf.json_format import MessageToDict

            from headrace.pipeline.formats.protobuf import parse_registered

            message = parse_registered(access, data)
            return f"Protobuf {schema_id}", _dict_of(message, MessageToDict)
        return f"JSON {schema_id}", json.loads(body)

    def _access(self) -> "Access":
        from headrace.pipeline.formats.schema_registry import Access

        return Access(self._url.rstrip("/"), self._authorization)


def _dict_of(message: Any, convert: Any) -> object:  # noqa: ANN401  # protobuf has no types here
    return convert(message, preserving_proto_field_name=True)
