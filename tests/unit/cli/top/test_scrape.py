"""The metrics of a broker are parsed, and its HTTP port is found from its setting."""

import pytest

from headrace.cli.top.scrape import metrics_address, parse_scrape

TEXT = r"""
# TYPE kafka_server_brokertopicmetrics_messagesin_total counter
kafka_server_brokertopicmetrics_messagesin_total{topic=""} 30
kafka_server_brokertopicmetrics_messagesin_total{topic="a\"b\\c"} 10
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 1.5e3
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.5"} 2
kafka_other_metric 7
kafka_consumergroup_lag_sum{consumergroup="g",topic="t"} 4
kafka_consumergroup_lag_sum{consumergroup="g",topic="u"} 5
"""


def test_the_series_of_the_views_are_parsed_and_summed_by_a_label() -> None:
    scrape = parse_scrape(TEXT.splitlines())
    records = scrape.by("kafka_server_brokertopicmetrics_messagesin_total", "topic")
    assert records == {"": 30.0, r'a"b\c': 10.0}
    times = scrape.by("kafka_network_requestmetrics_totaltimems", "request", quantile="0.99")
    assert times == {"Fetch": 1500.0}
    assert scrape.by("kafka_consumergroup_lag_sum", "consumergroup") == {"g": 9.0}
    assert "kafka_other_metric" not in scrape.series
    assert scrape.by("missing", "topic") == {}


@pytest.mark.parametrize(
    ("listener", "address"),
    [
        ("http://127.0.0.1:9644", "http://127.0.0.1:9644/metrics"),
        ("https://0.0.0.0:9644", "https://broker:9644/metrics"),
        ("http://:9644", "http://broker:9644/metrics"),
        ("http://[::1]:9644", "http://[::1]:9644/metrics"),
        ("", None),
        ("file:///etc/passwd", None),
    ],
)
def test_the_address_comes_from_the_listener(listener: str, address: str | None) -> None:
    assert metrics_address(listener, "broker") == address
