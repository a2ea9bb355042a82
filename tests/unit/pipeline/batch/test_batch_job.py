"""Headers are read only if a flow can use them."""

import json

import pytest

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.batch.batch_job import needs_headers


def flow_needs_headers(**parts: object) -> bool:
    spec = {
        "pipeline": "p",
        "source": {"topics": ["t"]},
        "sink": {"format": "delta", "table": "/tmp/t"},
        **parts,
    }
    (flow,) = parse_spec(json.dumps(spec)).resolved()
    return needs_headers(flow)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT _record.headers FROM source",
        "SELECT _record.* FROM source",
        "SELECT `_record`.* FROM source",
        "SELECT to_json(_RECORD) AS r FROM source",
        "SELECT _record AS r FROM source",
        "SELECT _record.offset, struct(_record) AS r FROM source",
    ],
)
def test_sql_that_can_see_the_headers_gets_them(sql: str) -> None:
    assert flow_needs_headers(transform=[{"sql": sql}])


def test_rules_and_dead_letters_get_headers_too() -> None:
    assert flow_needs_headers(expect=[{"name": "h", "sql": "size(_record.headers) > 0"}])
    assert flow_needs_headers(dead_letter={"topic": "t.dlq"})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM source",
        "SELECT *, _record.offset AS o, `_record`.`partition` AS p FROM source",
        "SELECT _record . timestamp AS t FROM source",
    ],
)
def test_unused_headers_are_not_read(sql: str) -> None:
    assert not flow_needs_headers(transform=[{"sql": sql}])
