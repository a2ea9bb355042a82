"""Writes a schema of Spark as DDL.

Spark's own `toDDL` needs a session. With Spark Connect, only the thread that opened the session
has one.
"""

from typing import TYPE_CHECKING

from headrace.pipeline.formats.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def ddl_of(schema: "StructType") -> str:
    """The schema as DDL, which `parse_ddl` reads if it supports the types."""
    return ", ".join(
        f"{quoted(field.name)} {_type_text(field.dataType)}{_rule(nullable=field.nullable)}"
        for field in schema.fields
    )


def _type_text(kind: "DataType") -> str:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            inner = ",".join(
                f"{quoted(field.name)}:{_type_text(field.dataType)}{_rule(nullable=field.nullable)}"
                for field in kind.fields
            )
            return f"struct<{inner}>"
        case ArrayType():
            return f"array<{_type_text(kind.elementType)}>"
        case MapType():
            return f"map<{_type_text(kind.keyType)},{_type_text(kind.valueType)}>"
        case _:
            return kind.simpleString()


def _rule(*, nullable: bool) -> str:
    return "" if nullable else " NOT NULL"
