"""Readers and writers of pipelines authenticate with every mechanism, also on other machines."""

import pickle
import shutil
from pathlib import Path

import pytest

from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.producer import TransactionalProducer, producer_settings
from headrace.pipeline.producer.settings import BadSetting
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.source.options import BadOption, read_options
from headrace.pipeline.source.record_reader import read_range
from headrace.records.record import Record
from support.security.secured_brokers import secured_broker

OFFSETS = OffsetRange("orders", 0, 0, 2)


@pytest.mark.parametrize("mechanism", ["mTLS", "PLAIN", "SCRAM, Java", "OAUTHBEARER"])
def test_workers_need_no_certificate_files(mechanism: str, tmp_path: Path) -> None:
    """The settings are pickled, as Spark does, and used without the driver's files."""
    with secured_broker(mechanism, tmp_path) as (broker, settings):
        broker.headrace.create_topic("orders")
        files = tmp_path / "driver"
        assert broker.security is not None
        shutil.copytree(broker.security.files.folder, files)
        there = {
            name: value.replace(str(broker.security.files.folder), str(files))
            for name, value in settings.items()
        }
        options = {f"kafka.{name}": value for name, value in there.items()}
        reading = read_options({**options, "subscribe": "orders"}, streaming=False)
        writing = producer_settings(there)
        sent = pickle.dumps((reading, writing))
        shutil.rmtree(files)
        reading, writing = pickle.loads(sent)
        with TransactionalProducer(writing, "pipeline") as producer:
            producer.init()
            producer.produce("orders", 0, [Record(0, 1, b"k", b"v")])
            producer.commit()
        LogAdmin(reading.read).check_connection()
        (chunk,) = read_range(OFFSETS._replace(end=1), reading.read)
        assert chunk.value.to_pylist() == [b"v"]
        assert "PRIVATE KEY" not in repr((reading, writing))
        assert settings.get("sasl.password", "?") not in repr((reading, writing))


def test_a_certificate_that_cannot_be_read_is_an_error_of_its_setting(tmp_path: Path) -> None:
    missing = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "none.pem"),
    }
    with pytest.raises(BadSetting, match=r"none\.pem"):
        producer_settings(missing)
    options = {f"kafka.{name}": value for name, value in missing.items()}
    with pytest.raises(BadOption, match=r"none\.pem"):
        read_options({**options, "subscribe": "orders"}, streaming=False)
