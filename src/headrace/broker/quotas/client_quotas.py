"""The client quotas of one broker, as the current metadata image has them.

Guarantees: while no quota is configured, `is_active` is False, nothing is measured, and the modules
that measure are not imported. Each broker measures and limits the clients that are connected to it,
except that changes of topics are limited by the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.security.quotas.client_quota import IP

if TYPE_CHECKING:
    from headrace.broker.quotas.exemption import BrokerExemption
    from headrace.broker.quotas.quota_managers import QuotaManagers
    from headrace.broker.quotas.request_throttling import RequestCharge
    from headrace.protocol.api import ApiSpec
    from headrace.security.quotas.quota_manager import Metered, Monotonic, Quotas
    from headrace.security.quotas.quota_windows import QuotaWindows
    from headrace.security.session import Session


class ThrottledConnection(Protocol):
    """The connection of a client that quotas may throttle."""

    def mute(self, duration_s: float) -> None: ...


class ChargedRequest(Protocol):
    """The context of a request whose cost is charged to a client."""

    @property
    def version(self) -> int: ...

    @property
    def frame(self) -> bytes | memoryview: ...

    @property
    def session(self) -> Session: ...

    @property
    def client_id(self) -> str: ...

    @property
    def connection(self) -> ThrottledConnection: ...


class PartitionCharge(Protocol):
    """Charges one request for each topic that it changes."""

    @property
    def throttle_ms(self) -> int:
        """The throttle time of the response."""
        ...

    def take(self, partitions: int) -> None:
        """Called before a topic changes; raises `Refused` if the sender's quota is used up."""
        ...


class _FreeOfCharge:
    """For a sender without a quota."""

    throttle_ms = 0

    def take(self, partitions: int) -> None: ...


FREE_OF_CHARGE: Final = _FreeOfCharge()
NO_QUOTAS: Final[Quotas] = {}


class ClientQuotas:
    """Charges requests to the quotas of their clients."""

    def __init__(
        self,
        windows: QuotaWindows,
        controller_windows: QuotaWindows,
        monotonic: Monotonic,
        exemption: BrokerExemption,
    ) -> None:
        self.is_active = False
        """Whether any user or client id has a quota: callers may skip everything else."""
        self.limits_request_time = False
        """Whether any user or client id has a `request_percentage`."""
        self._windows = windows
        self._controller_windows = controller_windows
        self._monotonic = monotonic
        self._exemption = exemption
        self._applied = NO_QUOTAS
        self._known_managers: QuotaManagers | None = None
        self._request_charge: type[RequestCharge] | None = None

    def update(self, quotas: Quotas) -> bool:
        """Applies the quotas of a new image, if they have changed; returns whether they have.

        What clients have used so far still counts.
        """
        if quotas is self._applied or (not quotas and self._known_managers is None):
            return False
        self._applied = quotas
        managers = self._managers
        managers.update(quotas)
        self.is_active = any(type_ != IP for entity in quotas for type_, _ in entity.parts)
        self.limits_request_time = managers.request.is_limited
        return True

    @property
    def _managers(self) -> QuotaManagers:
        """Built by the first quota."""
        if self._known_managers is None:
            from headrace.broker.quotas.quota_managers import QuotaManagers
            from headrace.broker.quotas.request_throttling import RequestCharge

            self._request_charge = RequestCharge
            self._known_managers = QuotaManagers(
                self._windows, self._controller_windows, self._monotonic
            )
        return self._known_managers

    def _is_exempt(self, request: ChargedRequest) -> bool:
        session = request.session
        return session.is_internal or self._exemption.exempts(session, request.client_id)

    def charge(self, request: ChargedRequest, spec: ApiSpec) -> RequestCharge | None:
        """Begins to measure a request; None if no quota applies to its sender. Requests of the
        broker itself have no charge."""
        managers, charge = self._known_managers, self._request_charge
        assert managers is not None  # a quota is active
        assert charge is not None
        session, client_id = request.session, request.client_id
        if not managers.limit_requests_of(session.principal.name, client_id):
            return None
        if self._exemption.exempts(session, client_id):
            return None
        return charge(managers, self._monotonic, request, client_id, spec)

    def max_fetch_bytes(self, request: ChargedRequest) -> int | None:
        """The most bytes that one Fetch may return without exceeding an unused quota."""
        if not self.is_active or self._is_exempt(request):
            return None
        largest = self._managers.fetch.max_value(request.session.principal.name, request.client_id)
        return None if largest is None else max(1, int(largest))

    def record_fetch(self, request: ChargedRequest, size_bytes: int) -> Metered | None:
        """Charges the records of a Fetch, unless their client is over its quota with them."""
        if not self.is_active or not size_bytes or self._is_exempt(request):
            return None
        user = request.session.principal.name
        return self._managers.fetch.record_unless_over(user, request.client_id, size_bytes)

    def mutation_charge(self, request: ChargedRequest, *, is_strict: bool) -> PartitionCharge:
        """Charges the partitions that a request creates or deletes."""
        if not self.is_active or self._is_exempt(request):
            return FREE_OF_CHARGE
        from headrace.broker.quotas.mutation_charge import MutationCharge

        user = request.session.principal.name
        return MutationCharge(
            self._managers.mutations, user, request.client_id, is_strict=is_strict
        )

    @property
    def throttled(self) -> tuple[int, float]:
        """Throttled requests since the start of the broker, and the sum of their times in s."""
        known = self._known_managers
        return (0, 0.0) if known is None else (known.throttled_requests, known.throttled_ms / 1000)

    def connection_throttle_s(self, address: str) -> float:
        """How long a new connection of this address waits until it is closed; 0: it is accepted."""
        return self._managers.connections.throttle_s(address)
