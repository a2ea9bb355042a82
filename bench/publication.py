"""docs/benchmarks.*: always writes the whole page, from the latest results of each part."""

from pathlib import Path

from bench import report, results
from bench.chart import chart
from bench.pipelines.section import section

PAGE, CHART, DATA = "benchmarks.md", "benchmarks.svg", "benchmarks.json"
PIPELINE_DATA = "benchmarks-pipeline.json"
# Written by hand and included in the page: what a reader should know about this publication.
NOTES, PIPELINE_NOTES = "benchmarks-notes.md", "benchmarks-pipeline-notes.md"


def publish(
    docs: Path,
    *,
    brokers: results.Results | None = None,
    pipelines: results.Results | None = None,
) -> None:
    """Stores the given results, and writes the page from them and from the stored ones."""
    if brokers is not None:
        results.save(brokers, docs / DATA)
        (docs / CHART).write_text(chart(brokers))
    if pipelines is not None:
        results.save(pipelines, docs / PIPELINE_DATA)
    page = report.document(
        results.load(docs / DATA),
        chart_name=CHART,
        data_name=DATA,
        pipelines=_pipelines(docs),
        notes=_text(docs / NOTES),
    )
    (docs / PAGE).write_text(page)


def _pipelines(docs: Path) -> str:
    if not (docs / PIPELINE_DATA).exists():
        return ""
    measured = results.load(docs / PIPELINE_DATA)
    return section(measured, data_name=PIPELINE_DATA, notes=_text(docs / PIPELINE_NOTES))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
