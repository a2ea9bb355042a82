"""The names that the demo uses, and its spec in the style of a user."""

from typing import Final

PIPELINE: Final = "demo-orders"
TOPIC: Final = "demo-orders"
DEAD_LETTER_TOPIC: Final = "demo-orders.dlq"
PARTITIONS: Final = 3
SPEC_FILE: Final = "pipeline.yaml"
TABLE: Final = "lake/orders"
CHECKPOINT: Final = "checkpoint"

SPEC: Final = f"""\
# The pipeline of `headrace demo`: orders into a Delta table, broken ones to a dead-letter topic.
version: 1
pipeline: {PIPELINE}
source:
  topics: [{TOPIC}]
  value:
    format: json
    schema: >-
      id STRING NOT NULL, customer STRING NOT NULL, country STRING,
      amount DECIMAL(10,2) NOT NULL, placed_at TIMESTAMP,
      lines ARRAY<STRUCT<product: STRING, quantity: INT, price: DECIMAL(10,2)>>
transform:
  - sql: >-
      SELECT id, customer, country, amount, size(lines) AS line_count, placed_at,
        _record.partition AS source_partition, _record.offset AS source_offset
      FROM source
expect:
  - {{name: positive_amount, sql: amount > 0, on_fail: dead_letter}}
sink:
  format: delta
  table: {TABLE}
dead_letter: {{topic: {DEAD_LETTER_TOPIC}}}
trigger: 1s
checkpoint: {CHECKPOINT}
"""  # noqa: S608 - the spec's own SQL, of constants
