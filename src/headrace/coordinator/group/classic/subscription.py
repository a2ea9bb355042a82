"""What consumers tell each other through the coordinator, as far as the coordinator looks at it."""

import struct
from collections.abc import Iterable
from typing import Final

from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that consumers ask for; None if one of them cannot be read.

    Every version of a subscription starts as version 0 does, with the topics.
    """
    topics: set[str] = set()
    for metadata in subscriptions:
        try:
            _VERSION.unpack_from(metadata)
            subscription, _ = ConsumerProtocolSubscription.read(
                metadata, _VERSION.size, len(metadata), 0
            )
        except (ProtocolError, struct.error):
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
