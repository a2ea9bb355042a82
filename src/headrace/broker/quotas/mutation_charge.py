"""Charges one request for the partitions that it creates or deletes (KIP-599)."""

from headrace.controller.result import Refused
from headrace.protocol.errors import ErrorCode
from headrace.security.quotas.mutation_quota import MutationQuotaManager


class MutationCharge:
    """The quota of one request's sender.

    A strict quota refuses a topic while it is used up. An old client does not know that error: its
    topics are created, and then its connection is muted.
    """

    __slots__ = ("_client_id", "_is_strict", "_mutations", "_user", "throttle_ms")

    def __init__(
        self, mutations: MutationQuotaManager, user: str, client_id: str, *, is_strict: bool
    ) -> None:
        self._mutations = mutations
        self._user = user
        self._client_id = client_id
        self._is_strict = is_strict
        self.throttle_ms = 0

    def take(self, partitions: int) -> None:
        """Called for each topic before it changes; raises `Refused` if it may not."""
        if not self._is_strict:
            throttle_ms = self._mutations.record(self._user, self._client_id, partitions)
            self.throttle_ms = max(self.throttle_ms, throttle_ms)
            return
        wait_ms = self._mutations.admit(self._user, self._client_id, partitions)
        if wait_ms:
            self.throttle_ms = max(self.throttle_ms, wait_ms)
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
