"""Families as text. The parsers of prometheus-client are the oracle."""

from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from headrace.metrics.family import MetricFamily
from headrace.metrics.text_format import LINES_PER_CHUNK, TextFormat, end_of_text, render_family

BOTH = tuple(TextFormat)
PARSERS = {TextFormat.PROMETHEUS: prometheus, TextFormat.OPENMETRICS: openmetrics}

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def rendered(family: MetricFamily, format_: TextFormat) -> str:
    return "".join(render_family(family, format_)) + end_of_text(format_)


def parsed(family: MetricFamily, format_: TextFormat) -> Found:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for found in PARSERS[format_](rendered(family, format_))
        for sample in found.samples
    }


def sample(name: str, value: float, **labels: str) -> Found:
    return {(name, frozenset(labels.items())): value}


@pytest.mark.parametrize("format_", BOTH)
@given(
    labels=st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=5, unique=True),
    number=st.one_of(st.integers(0, 2**53), st.floats(0, allow_nan=False)),
)
def test_any_text_of_a_label_is_read_back(
    format_: TextFormat, labels: list[tuple[str, str]], number: float
) -> None:
    """The readers split lines at "\\n" only; a surrogate cannot be sent at all."""
    usable = [pair for pair in labels if not any(0xD800 <= ord(c) < 0xE000 for c in "".join(pair))]
    family = MetricFamily("m", "gauge", "help", ("a", "b"), [(pair, number) for pair in usable])
    expected: Found = {}
    for a, b in usable:
        expected |= sample("m", float(number), a=a, b=b)
    assert parsed(family, format_) == expected


@pytest.mark.parametrize("format_", BOTH)
def test_a_label_without_a_value_is_left_out(format_: TextFormat) -> None:
    family = MetricFamily(
        "m_total",
        "counter",
        "help",
        ("topic", "x"),
        [(("", "1"), 3), (("t", ""), 2), (("", ""), 1)],
    )
    expected = sample("m_total", 3, x="1") | sample("m_total", 2, topic="t") | sample("m_total", 1)
    assert parsed(family, format_) == expected


@pytest.mark.parametrize("format_", BOTH)
def test_a_summary_has_quantiles_sum_and_count(format_: TextFormat) -> None:
    samples = [(("Fetch", "0.5"), 0.25), (("Fetch", "sum"), 1.5), (("Fetch", "count"), 4)]
    family = MetricFamily("t", "summary", "help", ("request",), samples)
    assert parsed(family, format_) == (
        sample("t", 0.25, request="Fetch", quantile="0.5")
        | sample("t_sum", 1.5, request="Fetch")
        | sample("t_count", 4, request="Fetch")
    )


@pytest.mark.parametrize("format_", BOTH)
def test_a_histogram_has_buckets_sum_and_count(format_: TextFormat) -> None:
    samples = [(("1.0",), 3), (("+Inf",), 4), (("count",), 4), (("sum",), 9.5)]
    family = MetricFamily("h", "histogram", "help", (), samples)
    assert parsed(family, format_) == (
        sample("h_bucket", 3, le="1.0")
        | sample("h_bucket", 4, le="+Inf")
        | sample("h_sum", 9.5)
        | sample("h_count", 4)
    )


@pytest.mark.parametrize("format_", BOTH)
def test_an_info_is_a_series_with_the_value_1(format_: TextFormat) -> None:
    family = MetricFamily("b_info", "info", "help", ("version",), [(("1.0",), 1)])
    assert parsed(family, format_) == sample("b_info", 1, version="1.0")


@pytest.mark.parametrize("format_", BOTH)
def test_help_may_have_any_characters(format_: TextFormat) -> None:
    family = MetricFamily("m", "gauge", 'two\nlines, a \\ and a "', (), [((), 1)])
    (found,) = PARSERS[format_](rendered(family, format_))
    assert found.documentation == 'two\nlines, a \\ and a "'


@pytest.mark.parametrize("format_", BOTH)
def test_numbers_that_are_no_decimals(format_: TextFormat) -> None:
    samples = [(("inf",), inf), (("-inf",), -inf), (("nan",), nan), (("true",), True)]
    found = parsed(MetricFamily("m", "gauge", "help", ("k",), samples), format_)
    by_key = {dict(labels)["k"]: value for (_, labels), value in found.items()}
    assert (by_key["inf"], by_key["-inf"], by_key["true"]) == (inf, -inf, 1)
    assert isnan(by_key["nan"])


@pytest.mark.parametrize("format_", BOTH)
def test_a_family_without_samples_is_left_out(format_: TextFormat) -> None:
    assert rendered(MetricFamily("m", "gauge", "help", (), []), format_) == end_of_text(format_)


def test_the_text_comes_in_chunks_of_whole_lines() -> None:
    samples = [((str(number),), number) for number in range(10 * LINES_PER_CHUNK)]
    family = MetricFamily("m", "gauge", "help", ("n",), iter(samples))
    chunks = list(render_family(family, TextFormat.PROMETHEUS))
    assert len(chunks) > 10
    assert all(chunk.endswith("\n") for chunk in chunks)
    assert max(chunk.count("\n") for chunk in chunks) <= LINES_PER_CHUNK + 1
