"""The first connection of a run: a wrong address fails within seconds, before Spark starts.

Later in the run, the flow waits for a broker that does not answer. The broker is known to exist, so
it is expected to come back.
"""

from collections.abc import Mapping
from typing import Final

from headrace.client.errors import DeadlineExceeded
from headrace.pipeline.runner.flow_factory import kafka_settings
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.source.options import read_options
from headrace.pipeline.source.settings import ReadFailed
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sinks import Topic
from headrace.pipeline.spec.sources import TopicSource

FIRST_CONNECTION_S: Final = 5.0
"""Long enough for a broker that is starting, or for one lost packet."""
_ADVICE: Final = "Check bootstrap.servers (-b) and that the broker is running"


def check_connection(flow: Flow, given: Mapping[str, str]) -> None:
    """Raises `ReadFailed` if no broker of the flow's cluster answers within seconds."""
    kafka = _cluster_of(flow, given)
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    settings = read_options({**options, "subscribePattern": ".*"}, streaming=False).read
    timeout_s = min(FIRST_CONNECTION_S, settings.api_timeout_s)
    quick = settings._replace(api_timeout_s=timeout_s, request_timeout_s=timeout_s)
    try:
        LogAdmin(quick).check_connection()
    except ReadFailed as error:
        cause = error.__cause__
        if not isinstance(cause, DeadlineExceeded):
            raise  # a wrong password or certificate: a broker answered
        raise ReadFailed(f"{cause.last} (tried for {timeout_s:g} s). {_ADVICE}") from cause


def _cluster_of(flow: Flow, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the client settings of the flow's cluster.

    It is the cluster that the flow reads from or, without a topic as source, writes to.
    """
    if not isinstance(flow.source, TopicSource) and isinstance(flow.sink, Topic):
        return {**flow.kafka_settings(flow.sink.kafka), **given}
    return kafka_settings(flow, given)
