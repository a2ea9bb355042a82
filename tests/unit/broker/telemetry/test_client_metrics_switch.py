"""Without opentelemetry-proto the receiver is off, and the log says what to install."""

import logging
import sys

import pytest

from headrace.broker.telemetry.client_metrics_switch import can_receive_client_metrics
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ConfigChanged
from headrace.cluster.resources import ConfigResource, ConfigResourceType

SUBSCRIPTION = ConfigResource(ConfigResourceType.CLIENT_METRICS, "all")
SUBSCRIBED = MetadataImage().apply([ConfigChanged(SUBSCRIPTION, "metrics", "*")])


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)


def test_the_receiver_is_on_with_the_library(caplog: pytest.LogCaptureFixture) -> None:
    assert can_receive_client_metrics(SUBSCRIBED)
    assert not caplog.records


@pytest.mark.usefixtures("without_library")
def test_a_subscription_that_has_no_effect_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not can_receive_client_metrics(SUBSCRIBED)
    assert "pip install 'headrace[telemetry]'" in caplog.text


@pytest.mark.usefixtures("without_library")
def test_without_a_subscription_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert not can_receive_client_metrics(MetadataImage())
    assert not caplog.records
