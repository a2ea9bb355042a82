"""What a broker gets when it polls the controller for metadata."""

import asyncio
from collections.abc import Callable, Sequence

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_log import MetadataChange, MetadataLog
from headrace.cluster.metadata_record_format import decode
from headrace.cluster.metadata_records import (
    MetadataRecord,
    ScramCredentialChanged,
    TopicCreated,
)
from headrace.cluster.metadata_store import Elected
from headrace.cluster.topology import Partition
from headrace.controller.metadata_polls import MetadataPolls
from headrace.protocol.messages.cluster_metadata import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
)
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism

CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)
TOPIC = TopicCreated("orders", b"t" * 16, (Partition((1,), (1,), 1),))


class History:
    """The metadata of the controller's broker: a log that reaches back to version 0."""

    def __init__(self, *changes: Sequence[MetadataRecord]) -> None:
        self.image = MetadataImage()
        self.metadata_log = MetadataLog(0)
        for records in changes:
            before = self.image.version
            self.image = self.image.apply(records)
            self.metadata_log.add(MetadataChange(before, self.image.version, records))
        self.published_version = self.image.version

    def advance(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        raise NotImplementedError

    def add_listener(self, callback: Callable[[], None]) -> None: ...

    def remove_listener(self, callback: Callable[[], None]) -> None: ...


class Connection:
    def on_close(self, key: object, lost: Callable[[], None]) -> None: ...


def answer(history: History, version: int) -> ClusterMetadataResponse:
    async def poll() -> ClusterMetadataResponse:
        polls = MetadataPolls(history, Elected(1, 1, 1))
        return await polls.poll(ClusterMetadataRequest(broker_id=2, version=version), Connection())

    return asyncio.run(poll())


def user(credential: ScramCredential | None) -> ScramCredentialChanged:
    return ScramCredentialChanged("alice", ScramMechanism.SCRAM_SHA_256, credential)


def test_a_starting_broker_gets_a_snapshot_without_what_was_removed() -> None:
    """A broker of an older version can join after things that it cannot read were removed."""
    found = answer(History([user(CREDENTIAL)], [TOPIC], [user(None)]), 0)
    assert found.is_snapshot
    records = [decode(each) for each in found.records]
    assert TOPIC in records
    assert not [each for each in records if isinstance(each, ScramCredentialChanged)]


def test_a_broker_that_follows_gets_the_changes_since_its_version() -> None:
    found = answer(History([user(CREDENTIAL)], [TOPIC], [user(None)]), 2)
    assert not found.is_snapshot
    assert [decode(each) for each in found.records] == [user(None)]
