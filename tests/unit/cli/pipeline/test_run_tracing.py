"""The links of `pipeline run --traces-endpoint` are read as the sources of its flows say."""

from pathlib import Path

import pytest

from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.pipeline.run import tracing_of
from headrace.pipeline.application.application import RunSettings
from headrace.pipeline.application.spec_loader import load_spec
from headrace.pipeline.runner import batch_tracing
from headrace.pipeline.source.settings import ReadSettings

SPEC = """
pipeline: shop
checkpoint: checkpoint
source: {topics: [orders], value: {format: json, schema: id BIGINT}}
sink: {format: parquet, table: table}
"""


def test_links_are_read_with_the_settings_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(SPEC)
    spec = load_spec(path)
    given = RunSettings({"bootstrap.servers": "127.0.0.1:9999"})
    found: dict[str, ReadSettings] = {}
    real = batch_tracing.BatchTracing

    def record(endpoint: str, sources: dict[str, ReadSettings]) -> batch_tracing.BatchTracing:
        found.update(sources)
        return real(endpoint, sources)

    monkeypatch.setattr(batch_tracing, "BatchTracing", record)
    tracing_of("http://127.0.0.1:4318", spec.resolved(), given)
    assert list(found) == ["shop"]
    assert found["shop"].bootstrap_servers == "127.0.0.1:9999"
    with pytest.raises(CommandFailed, match="is not an http") as refused:
        tracing_of("127.0.0.1:4318", spec.resolved(), given)
    assert refused.value.code is ExitCode.USAGE
