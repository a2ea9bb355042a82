"""The metrics of brokers, scraped from their HTTP ports."""

import urllib.request
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from headrace.testing import Broker

TIMEOUT_S = 30.0

HTTP_PORT = {"headrace.http.listener": "http://127.0.0.1:0"}
"""The setting of a broker with an HTTP port."""

Series = dict[tuple[str, ...], float]
Families = dict[str, Series]


def scraped(broker: Broker) -> Families:
    """Every family of this broker by its name; series by the values of their labels."""
    assert broker.node is not None
    assert broker.node.http is not None
    with urllib.request.urlopen(f"{broker.node.http.address}/metrics", timeout=TIMEOUT_S) as got:
        text = got.read().decode()
    found: Families = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = tuple(sample.labels.values())
            assert labels not in series, sample
            series[labels] = sample.value
    return found


def scraped_together(brokers: Iterable[Broker]) -> Families:
    """The families that kafka_exporter has, and those of share groups and transactions.

    No series of them comes from two brokers, so sums over brokers are right.
    """
    together: Families = {}
    for broker in brokers:
        for name, series in scraped(broker).items():
            if name.startswith(OF_THE_CLUSTER):
                known = together.setdefault(name, {})
                assert not known.keys() & series.keys(), f"{name} has a series of two brokers"
                known.update(series)
    return together


OF_THE_CLUSTER = (
    "kafka_brokers",
    "kafka_broker_info",
    "kafka_topic_",
    "kafka_consumergroup_",
    "headrace_sharegroup_",
    "headrace_consumergroup_",
    "headrace_partition_open_",
)
