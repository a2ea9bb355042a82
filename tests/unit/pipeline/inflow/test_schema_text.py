"""Schemas from Spark are written as text without a session."""

from pyspark.sql import types

from headrace.pipeline.formats.schema import (
    ArrayOf,
    Column,
    MapOf,
    Primitive,
    StructOf,
    parse_ddl,
)
from headrace.pipeline.inflow.schema_text import ddl_of


def test_a_schema_is_written_as_it_is_read_back() -> None:
    # Through Spark Connect, `StructType.toDDL` fails in the threads of flows.
    inner = types.StructType(
        [
            types.StructField("a `b`", types.DecimalType(10, 2), nullable=False),
            types.StructField("at", types.TimestampType()),
        ]
    )
    schema = types.StructType(
        [
            types.StructField("id", types.LongType(), nullable=False),
            types.StructField("tags", types.ArrayType(types.StringType())),
            types.StructField("by name", types.MapType(types.StringType(), inner)),
        ]
    )
    assert parse_ddl(ddl_of(schema)) == StructOf(
        (
            Column("id", Primitive("bigint"), required=True),
            Column("tags", ArrayOf(Primitive("string"))),
            Column(
                "by name",
                MapOf(
                    StructOf(
                        (
                            Column("a `b`", Primitive("decimal(10,2)"), required=True),
                            Column("at", Primitive("timestamp")),
                        )
                    )
                ),
            ),
        )
    )
