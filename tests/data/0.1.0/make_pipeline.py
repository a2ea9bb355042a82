"""Writes a topic, and pipelines into a Delta and a Parquet table that ended in the middle.

Runs with the source and the test support of version 0.1.0; README.md says how.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from archives import pack
from confluent_kafka import Producer
from headrace.pipeline.runner.session import open_session
from headrace.pipeline.sinks.delta import DeltaSink
from headrace.pipeline.sinks.parquet import ParquetSink

from headrace.pipeline.spec import parse_spec
from headrace.testing import Broker
from support.pipelines import Pipeline

SQL = "SELECT id, amount, _record.partition AS p, _record.offset AS o FROM source"
SETTINGS = {"offsets.topic.num.partitions": "1", "log.retention.ms": "-1"}
SINKS = {"delta": DeltaSink, "parquet": ParquetSink}
BROKEN = b'{"id": '


class Killed(BaseException):
    """The process ends here."""


def send(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        value = json.dumps({"id": number, "amount": number / 2}).encode()
        producer.produce("orders", value, b"k", number % 2)
    assert producer.flush(60) == 0


def spec_of(home: Path, kind: str, moment: str) -> str:
    name = f"{kind}_{moment}"
    source = {
        "topics": ["orders"],
        "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
    }
    sink = {"format": kind, "table": str(home / "tables" / name)}
    return json.dumps(
        {
            "pipeline": name,
            "source": source,
            "transform": [{"sql": SQL}],
            "sink": sink,
            "on_error": "skip",
            "trigger": "100ms",
            "checkpoint": str(home / "checkpoints" / name),
        }
    )


def die(kind: str, moment: str, pipeline: Pipeline) -> None:
    """The second batch ends just before or just after the commit of the table."""
    commit = SINKS[kind].commit

    def killed(self: object, batch: object, written: object) -> None:
        if moment == "after":
            commit(self, batch, written)
        raise Killed

    SINKS[kind].commit = killed
    try:
        pipeline.loop().step()
    except Killed:
        return
    finally:
        SINKS[kind].commit = commit
    raise AssertionError("the pipeline had nothing to do")


def make(home: Path) -> None:
    with Broker(data=home / "broker", settings=SETTINGS) as broker:
        bootstrap = broker.bootstrap_servers
        broker.headrace.create_topic("orders", partitions=2)
        send(bootstrap, range(20))
        broker.headrace.produce("orders", BROKEN, partition=0)
        with tempfile.TemporaryDirectory() as log:
            spark = open_session("make", master="local[2]", conf={}, log=Path(log) / "spark.log")
            pipelines = {
                (kind, moment): Pipeline(
                    parse_spec(spec_of(home, kind, moment)),
                    home / "tables" / f"{kind}_{moment}",
                    bootstrap,
                    spark,
                )
                for kind in SINKS
                for moment in ("before", "after")
            }
            for pipeline in pipelines.values():
                assert pipeline.run() == []
            send(bootstrap, range(20, 30))
            for (kind, moment), pipeline in pipelines.items():
                die(kind, moment, pipeline)
                pipeline.close()
            spark.stop()
        send(bootstrap, range(30, 36))


def main() -> None:
    home = Path("/tmp/headrace-0.1.0/pipeline")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    make(home)
    pack(home, Path(sys.argv[1]) / "pipeline.tar.xz")


if __name__ == "__main__":
    main()
