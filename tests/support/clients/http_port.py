"""A client of a broker's HTTP port."""

import http.client
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 20.0
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def get(
    address: str,
    path: str = "/metrics",
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
) -> Response:
    """One request on a connection of its own."""
    url = urlsplit(address)
    assert url.hostname is not None
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        connection = http.client.HTTPSConnection(
            url.hostname, url.port, timeout=TIMEOUT_S, context=tls
        )
    else:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        found = connection.getresponse()
        lower: dict[str, str] = {}
        for name, value in found.getheaders():
            key = name.lower()
            lower[key] = f"{lower[key]}, {value}" if key in lower else value
        return Response(found.status, lower, found.read())
    finally:
        connection.close()


def samples_of(text: str) -> Samples:
    """Every sample, as Prometheus reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Scrape:
    """The samples of one scrape."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def value(self, name: str, **labels: str) -> float:
        """The value of one series; 0 if there is none yet."""
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def has(self, name: str, **labels: str) -> bool:
        return (name, frozenset(labels.items())) in self.samples

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


def scrape(address: str) -> Scrape:
    """The samples of a broker's /metrics."""
    response = get(address)
    assert response.status == 200, response.text
    return Scrape(samples_of(response.text))
