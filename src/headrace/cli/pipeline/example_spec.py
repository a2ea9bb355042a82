"""The spec that `pipeline init` writes."""

from typing import Final

_EXAMPLE: Final = """\
version: 1
pipeline: {name}_to_lake

source:
  topics: [{topic}]
  start: earliest                 # or latest, {{offsets: ...}}, {{timestamp: 2026-01-31T12:00:00Z}}
  value:
    format: json                  # or avro, protobuf, csv, raw
    # Without a schema it is inferred from the first records and pinned in the checkpoint.
    # schema: id BIGINT NOT NULL, customer STRING, amount DOUBLE, ts TIMESTAMP

# transform:
#   - sql: SELECT id, customer, amount, ts, to_date(ts) AS day FROM source

# expect:
#   - {{name: positive, sql: "amount > 0", on_fail: dead_letter}}

sink:
  format: delta                   # or iceberg, parquet, topic
  table: lake/{topic}
  mode: append                    # or merge, with key: [id]
  # partition_by: [day]

# Records that cannot be read go here, each once.
dead_letter: {{topic: {topic}.dlq}}

trigger: 10s                      # or once
checkpoint: checkpoints/{topic}
"""


def example(topic: str) -> str:
    """Returns a spec that reads this topic."""
    name = "".join(each if each.isalnum() else "_" for each in topic)
    return _EXAMPLE.format(topic=topic, name=name)
