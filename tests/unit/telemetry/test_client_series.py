"""The series of clients: families with all labels, removed together with their client."""

from headrace.telemetry.client_series import ClientSeries, PushingClient
from headrace.telemetry.push_decoder import DecodedPush, Labels, Point

A = PushingClient(("app", "a", "java", "4"), "10.0.0.1", {})
B = PushingClient(("app", "b", "java", "4"), "10.0.0.2", {})


def pushed(*points: Point) -> DecodedPush:
    return DecodedPush(list(points), {}, {})


def point(family: str, value: float, labels: Labels = ()) -> Point:
    return Point(
        family, is_counter=False, is_delta=False, labels=labels, value=value, source_name="m"
    )


def test_a_family_has_the_labels_of_all_its_series() -> None:
    series = ClientSeries(max_series=10, max_series_per_client=10)
    series.add(b"a", A, pushed(point("m", 1, (("topic", "t"),))), expires_at_ms=10)
    series.add(b"b", B, pushed(point("m", 2, (("node_id", "1"),))), expires_at_ms=20)
    (family,) = series.families()
    assert family.labels[-2:] == ("topic", "node_id")
    assert list(family.samples) == [
        (("app", "a", "java", "4", "t", ""), 1.0),
        (("app", "b", "java", "4", "", "1"), 2.0),
    ]


def test_a_client_that_stops_during_a_scrape_is_left_out() -> None:
    series = ClientSeries(max_series=10, max_series_per_client=10)
    series.add(b"a", A, pushed(point("m", 1), point("n", 1)), expires_at_ms=10)
    series.add(b"b", B, pushed(point("m", 2)), expires_at_ms=20)
    families = series.families()
    samples = iter(next(families).samples)
    assert next(samples) == (("app", "a", "java", "4"), 1.0)
    series.expire(20)
    assert list(samples) == []
    assert list(families) == []
    assert (series.count, series.clients()) == (0, ())


def test_a_client_is_exported_until_its_expiry() -> None:
    series = ClientSeries(max_series=10, max_series_per_client=10)
    series.add(b"a", A, pushed(point("m", 1)), expires_at_ms=10)
    series.add(b"a", A, pushed(), expires_at_ms=30)
    series.expire(29)
    assert series.clients() == (A,)
    series.expire(30)
    assert series.clients() == ()
