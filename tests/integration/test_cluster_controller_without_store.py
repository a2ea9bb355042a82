"""The controller loses the metadata store, but not its connections to the other brokers."""

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.testing import Cluster
from support.wire.connection import Wire

LIMIT_MS = 15_000


def test_a_request_finds_the_next_controller_while_the_old_one_still_answers() -> None:
    """It is sent while the old controller is still known: that one can no longer decide it."""
    with Cluster(3) as cluster:
        old = cluster.controller
        assert old is not None
        asked = next(each for each in cluster.brokers if each != old)
        cluster._shared.cut_off(old)
        with Wire(cluster.brokers[asked].bootstrap_servers, timeout_s=2 * LIMIT_MS / 1000) as wire:
            new = CreatableTopic(name="orders", num_partitions=1, replication_factor=3)
            request = CreateTopicsRequest(topics=[new], timeout_ms=LIMIT_MS)
            (created,) = wire.call(request, CreateTopicsResponse).topics
        assert created.error_code == ErrorCode.NONE, created
        cluster.heal()
        cluster.wait_until_healthy()
