"""The rows of each view, from two samples with metrics and without."""

from headrace.cli.cluster.status import Overview
from headrace.cli.top.sample import GroupSample, Sample, rate
from headrace.cli.top.scrape import Scrape, parse_scrape
from headrace.cli.top.views import NEEDS_METRICS, ViewName, view_of
from headrace.client.admin.brokers import BrokerInfo, ClusterInfo
from headrace.client.metadata import PartitionInfo, TopicInfo
from headrace.client.results import TopicPartition

REQUESTS = "kafka_network_requestmetrics"
LED_BY_ONE, LED_BY_TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def overview() -> Overview:
    brokers = (BrokerInfo(1, "h", 1), BrokerInfo(2, "h", 2))
    partitions = {0: PartitionInfo(1, 0, (1, 2), (1, 2)), 1: PartitionInfo(2, 0, (2, 1), (2,))}
    topics = (
        TopicInfo("quiet", bytes(16), False, {}),
        TopicInfo("t", bytes(16), False, partitions),
    )
    return Overview(ClusterInfo("c", 1, brokers), topics)


def scrape(records: int, requests: int, errors: int = 0) -> Scrape:
    return parse_scrape(
        [
            f'kafka_server_brokertopicmetrics_messagesin_total{{topic=""}} {records}',
            f'kafka_server_brokertopicmetrics_messagesin_total{{topic="t"}} {records}',
            f'kafka_server_brokertopicmetrics_bytesin_total{{topic="t"}} {records * 100}',
            f'kafka_server_brokertopicmetrics_bytesout_total{{topic="t"}} {records * 200}',
            f'{REQUESTS}_requests_total{{request="Produce",version="9"}} {requests}',
            f'{REQUESTS}_totaltimems{{request="Produce",quantile="0.5"}} 1',
            f'{REQUESTS}_totaltimems{{request="Produce",quantile="0.99"}} 40',
            f'{REQUESTS}_errors_total{{request="Produce",error="NONE"}} {requests}',
            f'{REQUESTS}_errors_total{{request="Produce",error="X"}} {errors}',
            'headrace_api_waiting_requests{request="Produce"} 3',
        ]
    )


def row(name: ViewName, before: Sample, now: Sample, first: object) -> dict[str, object]:
    view = view_of(name, before, now)
    return next(facts for facts in view.facts() if next(iter(facts.values())) == first)


def test_without_metrics_rates_come_from_the_growth_of_offsets_and_logs() -> None:
    before = Sample(10.0, overview(), {LED_BY_ONE: 100, LED_BY_TWO: 5}, {LED_BY_ONE: 1000})
    now = Sample(12.0, overview(), {LED_BY_ONE: 160, LED_BY_TWO: 5}, {LED_BY_ONE: 5000})
    topic = row(ViewName.TOPICS, before, now, "t")
    assert (topic["records_per_s"], topic["bytes_in_per_s"]) == (30.0, 2000.0)
    assert (topic["bytes_out_per_s"], topic["end_offsets"]) == (None, 165)
    assert topic["under_replicated"] == 1
    assert row(ViewName.BROKERS, before, now, 1)["records_per_s"] == 30.0
    assert row(ViewName.BROKERS, before, now, 2)["records_per_s"] == 0.0
    requests = view_of(ViewName.REQUESTS, before, now)
    assert (requests.rows, requests.note) == ((), NEEDS_METRICS)


def test_with_metrics_of_all_leaders_rates_come_from_their_counters() -> None:
    before = Sample(10.0, overview(), scrapes={1: scrape(0, 10), 2: scrape(50, 0)})
    now = Sample(15.0, overview(), scrapes={1: scrape(100, 60, 5), 2: scrape(60, 5)})
    topic = row(ViewName.TOPICS, before, now, "t")
    assert topic["records_per_s"] == 22.0
    assert (topic["bytes_in_per_s"], topic["bytes_out_per_s"]) == (2200.0, 4400.0)
    broker = row(ViewName.BROKERS, before, now, 1)
    assert (broker["records_per_s"], broker["requests_per_s"]) == (20.0, 10.0)
    assert broker["errors_per_s"] == 1.0
    requests = view_of(ViewName.REQUESTS, before, now)
    assert requests.note == ""
    assert requests.facts()[0] == {
        "request": "Produce",
        "broker": 1,
        "requests_per_s": 10.0,
        "p50_ms": 1.0,
        "p99_ms": 40.0,
        "p999_ms": None,
        "errors_per_s": 1.0,
        "waiting": 3.0,
    }


def test_groups_are_sorted_by_lag_and_unknown_lag_is_last() -> None:
    groups = {
        "a": GroupSample("classic", "Stable", 5, 100),
        "b": GroupSample("consumer", "Stable", 500, 7, 2, 12.5),
        "c": GroupSample("share", "Empty", None, None),
    }
    earlier = {"a": GroupSample("classic", "Stable", 9, 80)}
    view = view_of(
        ViewName.GROUPS,
        Sample(0.0, overview(), groups=earlier),
        Sample(2.0, overview(), groups=groups),
    )
    assert [facts["group"] for facts in view.facts()] == ["b", "a", "c"]
    assert view.facts()[1]["records_per_s"] == 10.0
    by_name = view.sorted_by(0)
    assert [each[0] for each in by_name] == ["a", "b", "c"]


def test_a_counter_that_was_reset_has_no_rate() -> None:
    assert rate(100, 20, 2.0) is None
    assert rate(None, 20, 2.0) is None
    assert rate(20, 20, 0.0) is None
    assert rate(20, 30, 2.0) == 5.0
