"""The demo's spec is valid and names the topics and tables that the demo reads."""

from pathlib import Path

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.demo.spec import CHECKPOINT, DEAD_LETTER_TOPIC, PIPELINE, SPEC, TABLE, TOPIC
from headrace.pipeline.spec import Delta, TopicSource


def test_the_spec_has_the_settings_that_the_demo_needs(tmp_path: Path) -> None:
    (flow,) = parse_spec(SPEC, base=tmp_path).resolved()
    assert flow.id == PIPELINE
    assert isinstance(flow.source, TopicSource)
    assert flow.source.topics == (TOPIC,)
    assert isinstance(flow.sink, Delta)
    assert flow.sink.table == str(tmp_path / TABLE)
    assert flow.dead_letter is not None
    assert flow.dead_letter.topic == DEAD_LETTER_TOPIC
    assert flow.on_error == "dead_letter"
    assert flow.checkpoint == str(tmp_path / CHECKPOINT)
