"""Renders the pipeline section of docs/benchmarks.md. Pure."""

import statistics

from bench import report
from bench.pipelines.connector import SPARK_VERSION
from bench.results import Results
from bench.stats import spread

HEADING = f"""## Pipelines

Headrace's Spark source and pipelines, compared with Spark's own Kafka source (the *connector*)
{SPARK_VERSION}: the newest version whose parts are all on Maven Central. It runs on a Spark of the
same version. `script/bench pipeline --publish` runs the measurements.
"""

METHOD = """\
- Rounds are interleaved (A B C, C B A, ...), after three warm-up rounds. Headrace has one Spark
  session, and both configurations of the connector share another; both sessions use `local[2]`,
  stay warm, and have run equally often. All sides read six partitions from one Headrace broker on
  the same two cores.
- *Tuned* is the connector with `max.partition.fetch.bytes` 4 MB, `max.poll.records` 10000 and
  `fetch.max.wait.ms` 20; *defaults* is the connector without settings. Headrace uses its defaults.
- Headrace's session is opened with `headrace.pipeline.open_session`, with the settings that it
  applies for every user ([ADR 19](adr/0019-spark-process-start-up.md)). The connector's session is
  opened with Spark's builder.
- Topic to noop: a batch read and an AvailableNow stream, from the call to its return.
- JSON topic to Delta: a complete pipeline run until it has caught up. It includes parsing, one bad
  record in a thousand sent to the dead letters in a transaction, table commits and the group's
  offsets. The connector's side is a batch read, `from_json` and one folder of Parquet files with
  good and bad rows alike.
- JSON topic, SQL and a rule: the same with an SQL step that casts a time to a date, and a rule that
  one order in a thousand violates; those orders become dead letters too. The connector's side runs
  the same SELECT and filters out rows that violate the rule, including bad ones. Spark moves that
  condition below the SELECT and so parses each record twice. *Partitioned* is by country, with five
  countries.
- Decoding: batches from memory, checksums verified, CPU time. The first call is in a new process
  and loads the compiled decoder from disk.
- Pipeline at 1,000 records/s: `headrace pipeline run` with a trigger of one second, to Delta. The
  age of a row is the time from sending its record to the commit of the row.
- Memory of a worker: peak resident memory of a Python worker that reads one whole partition."""


def section(measured: Results, *, data_name: str, notes: str = "") -> str:
    """Return the section in Markdown; `notes` is appended unchanged."""
    return "\n".join(
        [
            HEADING,
            *report.markdown_table(measured),
            *report.verdict(measured),
            f"Raw data: [{data_name}]({data_name}).",
            "",
            f"- {measured.date}, {int(measured.settings['rounds'])} rounds.",
            METHOD,
            *_noise(measured),
            "",
            *((notes.strip(), "") if notes.strip() else ()),
        ]
    )


def _noise(measured: Results) -> list[str]:
    shares = [
        (spread(figure.ours).interquartile_share, spread(figure.theirs).interquartile_share)
        for workload in measured.workloads
        for figure in workload.figures
        if len(figure.theirs) > 1
    ]
    if not shares:
        return []
    ours = statistics.median(share for share, _ in shares)
    theirs = statistics.median(share for _, share in shares)
    return [
        f"- Noise: the middle half of one side's own rates spans {ours:.0%} of its median for",
        f"  Headrace and {theirs:.0%} for the connector (median over all figures).",
    ]
