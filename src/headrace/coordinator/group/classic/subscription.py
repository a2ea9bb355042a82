"""The subscriptions that consumers exchange through the coordinator, as far as it reads them."""

import struct
from collections.abc import Iterable
from typing import Final

from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that the consumers subscribe to; None if a subscription is unreadable.

    Every version of a subscription begins with the topics, as version 0 does.
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
