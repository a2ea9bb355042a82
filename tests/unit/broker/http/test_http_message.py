"""Accept and Accept-Encoding."""

import pytest

from headrace.broker.http.http_message import accepts

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.mark.parametrize(
    ("header", "wanted", "quality"),
    [
        ("gzip, deflate, br", "gzip", 1),
        ("gzip;q=0", "gzip", 0),
        ("identity", "gzip", 0),
        ("*", "gzip", 1),
        ("", "gzip", 0),
        ("text/plain;version=0.0.4;q=0.3", "text/plain; version=0.0.4", 0.3),
        ("application/openmetrics-text;version=1.0.0;q=0.8", OPENMETRICS, 0.8),
        ("application/openmetrics-text;version=0.0.1", OPENMETRICS, 0),
        ('application/openmetrics-text; version="1.0.0"', OPENMETRICS, 1),
        ("application/openmetrics-text", OPENMETRICS, 1),
        ("text/*;q=0.5, */*;q=0.1", "text/plain", 0.5),
        ("*/*;q=2", "text/plain", 1),
        ("*/*;q=x", "text/plain", 0),
        (";;;,,=;q", "text/plain", 0),
    ],
)
def test_the_quality_of_a_value(header: str, wanted: str, quality: float) -> None:
    assert accepts(header, wanted) == quality
