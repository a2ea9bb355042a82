"""What a run leaves in its checkpoint directory about itself: its spec, host and process.

Secrets of a spec are `${NAME}` and stay so.
"""

import os
import platform
import time
from collections.abc import Mapping

from headrace import __version__
from headrace.pipeline.spec.flow import Flow

SERVERS = "bootstrap.servers"


def run_facts(flow: Flow, kafka: Mapping[str, str]) -> dict[str, object]:
    """The facts of the run that begins now, as JSON."""
    return {
        "flow": flow.id,
        "started_ms": time.time_ns() // 1_000_000,
        "host": platform.node(),
        "pid": os.getpid(),
        "version": __version__,
        "servers": kafka.get(SERVERS) or flow.kafka.root.get(SERVERS, ""),
        "spec": flow.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
    }
