"""One warm Spark session that runs commands, one JSON line each; a program.

`python session.py headrace|connector [JAR...]` runs in the environment of its side. It imports
nothing of the benchmark, because the connector needs its own version of Spark. Both sessions are
`local[2]` and get the same settings. Answers are lines on the original stdout of the program;
Spark's output goes to stderr.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.speculation": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
TUNED = {
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.max.poll.records": "10000",
    "kafka.fetch.max.wait.ms": "20",
}

Request: TypeAlias = Mapping[str, str]
Figures = dict[str, float]


class Side:
    """The actions of both sides, each with its own source."""

    def __init__(self, spark: "SparkSession", source: str) -> None:
        self.spark = spark
        self.source = source

    def options(self, request: Request) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": request["bootstrap"],
            "subscribe": request["topic"],
            "startingOffsets": "earliest",
        }
        if self.source == "kafka" and request.get("tuned"):
            options.update(TUNED)
        return options

    def batch(self, request: Request) -> Figures:
        began = time.perf_counter()
        read = self.spark.read.format(self.source).options(**self.options(request)).load()
        read.write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - began}

    def stream(self, request: Request) -> Figures:
        with scratch() as home:
            began = time.perf_counter()
            query = (
                self.spark.readStream.format(self.source)
                .options(**self.options(request))
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", str(home / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            seconds = time.perf_counter() - began
            rows = sum(progress["numInputRows"] for progress in query.recentProgress)
            return {"seconds": seconds, "rows": rows}

    def json(self, request: Request) -> Figures:
        """Writes the JSON topic to a table; returns the time.

        With a `select`, the rows are transformed, and those that meet `expect` are written, with
        one folder for each value of `partition_by` if it is set.
        """
        raise NotImplementedError


class Connector(Side):
    """Spark's Kafka source.

    The table is a folder of Parquet with all rows, good and bad. With a rule, it has only those
    that meet it.
    """

    def json(self, request: Request) -> Figures:
        with scratch() as home:
            began = time.perf_counter()
            read = self.spark.read.format(self.source).options(**self.options(request)).load()
            parsed = read.selectExpr(
                f"from_json(CAST(value AS STRING), '{request['schema']}, _corrupt STRING', "
                "map('columnNameOfCorruptRecord', '_corrupt')) AS row"
            ).select("row.*")
            if "select" in request:
                parsed.createOrReplaceTempView("source")
                parsed = self.spark.sql(request["select"]).where(request["expect"])
            write = parsed.write
            if "partition_by" in request:
                write = write.partitionBy(request["partition_by"])
            write.parquet(str(home / "table"))
            seconds = time.perf_counter() - began
            rows = self.spark.read.parquet(str(home / "table"))
            return {"seconds": seconds, "rows": rows.count()}


class Headrace(Side):
    """Headrace's source and its runner, as `headrace pipeline run --until-caught-up` uses it."""

    def json(self, request: Request) -> Figures:
        from headrace.pipeline.application.application import Application, RunSettings
        from headrace.pipeline.application.spec_loader import parse_spec
        from headrace.pipeline.runner.events import Event

        with scratch() as home:
            events: list[Event] = []
            spec = parse_spec(json.dumps(pipeline(request, home)))
            settings = RunSettings(
                kafka={"bootstrap.servers": request["bootstrap"]}, until_caught_up=True
            )
            began = time.perf_counter()
            failed = Application(spec, settings, [events.append], spark=self.spark).run()
            seconds = time.perf_counter() - began
            if failed:
                raise failed[0]
            return {
                "seconds": seconds,
                "rows": sum(event.rows for event in events),
                "dead_letters": sum(event.dead_letters for event in events),
            }


def pipeline(request: Request, home: Path) -> dict[str, object]:
    """A spec that writes the JSON topic to a Delta table and bad records to the dead letters."""
    topic = request["topic"]
    sink: dict[str, object] = {"format": "delta", "table": str(home / "table")}
    if "partition_by" in request:
        sink["partition_by"] = [request["partition_by"]]
    if "key" in request:
        sink |= {"mode": "merge", "key": [request["key"]]}
    spec: dict[str, object] = {
        "pipeline": f"bench-{os.getpid()}-{time.monotonic_ns()}",
        "source": {"topics": [topic], "value": {"format": "json", "schema": request["schema"]}},
        "sink": sink,
        "dead_letter": {"topic": f"{topic}.dlq"},
        "trigger": "1s",
        "checkpoint": str(home / "checkpoint"),
    }
    if "select" in request:
        rule = {"name": "expected", "sql": request["expect"], "on_fail": "dead_letter"}
        spec |= {"transform": [{"sql": request["select"]}], "expect": [rule]}
    return spec


@contextmanager
def scratch() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="session-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def connect(side: str, jars: list[str]) -> Side:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if side == "headrace":
        from headrace.pipeline import open_session

        return Headrace(open_session("bench", master=MASTER), "headrace")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("bench").master(MASTER)
    for name, value in {**SETTINGS, "spark.jars": ",".join(jars)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return Connector(spark, "kafka")


def main(side: str, jars: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    here = connect(side, jars)
    actions: Mapping[str, Callable[[Request], Figures]] = {
        "batch": here.batch,
        "stream": here.stream,
        "json": here.json,
    }
    print(json.dumps({"ready": here.spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer: Mapping[str, object] = actions[request["do"]](request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:4000]}
        print(json.dumps(answer), file=answers, flush=True)
    here.spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
