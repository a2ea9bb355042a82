"""Which requests quotas do not apply to: those of brokers, as in Kafka.

A broker is never throttled: a follower would fall out of the ISR, and a muted connection between
brokers would delay the forwarded requests of all clients.
"""

from collections.abc import Callable
from typing import Final

from headrace.broker.access.access_control import AccessControl
from headrace.security.authorization.acl import AclOperation
from headrace.security.session import Session

BROKER_CLIENT_ID_PREFIX: Final = "headrace-broker-"
"""The client ids of brokers. They count only without an authorizer: then brokers and clients have
the same rights, and nothing else distinguishes them."""


class BrokerExemption:
    """Recognizes the sessions of other brokers."""

    def __init__(
        self,
        access: AccessControl,
        inter_broker_listener: str,
        is_member: Callable[[], bool],
    ) -> None:
        self._access = access
        self._inter_broker_listener = inter_broker_listener
        self._is_member = is_member

    def exempts(self, session: Session, client_id: str) -> bool:
        """Whether the sender is a broker."""
        if session.is_internal:
            return True
        if session.listener != self._inter_broker_listener:
            return False
        if not self._access.is_enforced:
            return self._is_member() and client_id.startswith(BROKER_CLIENT_ID_PREFIX)
        return self._access.shows_cluster(session, AclOperation.CLUSTER_ACTION)
