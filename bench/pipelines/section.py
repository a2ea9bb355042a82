"""The part of docs/benchmarks.md that is about pipelines. Pure."""

import statistics

from bench import report
from bench.pipelines.connector import SPARK_VERSION
from bench.results import Results
from bench.stats import spread

HEADING = f"""## Pipelines

Headrace's source and pipelines beside Spark's own Kafka source {SPARK_VERSION}, which is the newest
whose parts are all on Maven Central and runs with a Spark of its own version. Measured by
`script/bench pipeline --publish`.
"""

METHOD = """\
- Rounds are interleaved (A B C, C B A, ...); three that do not count come first. One session for
  Headrace and one for both sides of the connector on `local[2]` stay warm, with as many runs behind
  them; all read from one Headrace broker on the same two cores; six partitions.
- *Tuned* is the connector with `max.partition.fetch.bytes` 4 MB, `max.poll.records` 10000 and
  `fetch.max.wait.ms` 20; *defaults* is the connector as it comes. Headrace has its own defaults.
- Headrace's session is what `headrace.pipeline.open_session` opens, with the settings that it makes
  for every user (ADR 19); the connector's is opened with Spark's builder.
- Topic to noop: a batch read and an AvailableNow stream, from the call to its return.
- JSON topic to Delta: a whole run of a pipeline until it has caught up, with its parsing, one
  broken record in a thousand sent to the dead letters in a transaction, table commits and the
  group's offsets. The connector's side is a batch read, `from_json` and one folder of Parquet
  with good and broken rows alike.
- JSON topic, SQL and a rule: the same with an SQL step that casts a time to a date, and a rule that
  one order in a thousand does not meet; those become dead letters too. The connector's side has
  the same SELECT and leaves out what does not meet the rule, broken rows among them. Spark moves
  that condition below the SELECT, and so parses the record for it once more. *Partitioned* is by
  the country, of which there are five.
- Decoding: batches from memory, checksums checked, processor time. The first call is in a new
  process and loads the compiled decoder from the disk.
- Pipeline at 1,000 records/s: `headrace pipeline run` with a trigger of a second, to Delta. The age
  of a row is the time of its commit minus the moment when its record was sent.
- Memory of a worker: one partition read whole; the most that a Python worker has had resident."""


def section(measured: Results, *, data_name: str, notes: str = "") -> str:
    """Markdown under a heading of its own; `notes` come last, as they are."""
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
        f"- Noise: the middle half of a side's own rates spans {ours:.0%} of its median for",
        f"  Headrace and {theirs:.0%} for the connector (median over the figures).",
    ]
