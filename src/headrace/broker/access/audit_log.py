"""The audit log: decisions, logins and changes of access, one line each.

The logger is `headrace.authorizer`. Every line has the same form: the event, the principal, what
the event is about, the host, the API (a login has none), the listener, and the reason if there is
one. Denied requests, logins and changes are at INFO, allowed requests at DEBUG. Filters, which
leave hidden resources out of a response, are silent. Lines that clients can cause at will are
limited (`headrace.limited_log`), and the log says how many were left out.
"""

import logging
from collections import Counter
from contextvars import ContextVar
from typing import Final

from headrace.clock import Clock
from headrace.limited_log import LineLimit
from headrace.log_formatters import AUDIT_LOGGER
from headrace.protocol.api import APIS, ApiKey
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.authorization.authorizer import Decision
from headrace.security.session import Session

log = logging.getLogger(AUDIT_LOGGER)

CURRENT_API: Final[ContextVar[str]] = ContextVar("CURRENT_API", default="-")
"""The API of the request that is being handled; dispatch sets it where access is enforced. A task
that a request starts keeps it."""


_ANYONE: Final = "-"


class AuditLog:
    """The audit log of one broker."""

    def __init__(self, clock: Clock) -> None:
        self.logins: Counter[str] = Counter()
        """Successful logins since the start of the broker, by listener; and those that failed:"""
        self.failed_logins: Counter[str] = Counter()
        self.denied = 0
        """Denied requests since the start of the broker."""
        self._clock = clock
        self._limit = LineLimit(clock.monotonic())

    @property
    def logs_allowed(self) -> bool:
        """Whether allowed requests have a line, too."""
        return log.isEnabledFor(logging.DEBUG)

    def log_decision(
        self,
        session: Session,
        operation: AclOperation,
        type_: AclResourceType,
        name: str,
        decision: Decision,
    ) -> None:
        """A client asked for this resource, and the request was allowed or denied."""
        self.denied += not decision.allowed
        level = logging.DEBUG if decision.allowed else logging.INFO
        if not log.isEnabledFor(level):
            return
        principal = str(session.principal)
        left_out = 0 if decision.allowed else self._admit(principal, session.host)
        if left_out is None:
            return
        fields = _fields(
            session,
            CURRENT_API.get(),
            operation=operation.name,
            resource=f"{type_.name}:{name}",
        )
        fields["rule"] = str(decision.acl or decision.reason.value)
        if left_out:
            fields["left_out"] = left_out
        log.log(level, "allowed" if decision.allowed else "denied", extra=fields)

    def log_login(self, session: Session, mechanism: str, *, error: str | None = None) -> None:
        """A client has authenticated, or failed with `error`, which must contain no secret. After
        a failure, the principal of the session is the one that the client claimed."""
        (self.logins if error is None else self.failed_logins)[session.listener] += 1
        if not log.isEnabledFor(logging.INFO):
            return
        principal = str(session.principal)
        # A client that guesses may claim another name each time.
        left_out = self._admit(principal if error is None else _ANYONE, session.host)
        if left_out is None:
            return
        fields = _fields(session, None, mechanism=mechanism)
        if error is not None:
            fields["error"] = error
        if left_out:
            fields["left_out"] = left_out
        log.info("login" if error is None else "login failed", extra=fields)

    def log_change(self, session: Session, api: ApiKey, change: str, **what: object) -> None:
        """The client has changed an ACL, a user, a quota or a delegation token. `change` is a fixed
        sentence; `what` contains no secret. A change needs a right and a commit of metadata, so
        that these lines are not limited."""
        if log.isEnabledFor(logging.INFO):
            log.info(change, extra=_fields(session, APIS[api].name, **what))

    def report_left_out(self) -> None:
        """Logs how many lines were left out of each source since its last line."""
        for source, number in self._limit.take_left_out():
            principal, host = source or (_ANYONE, _ANYONE)
            extra = {"principal": principal, "host": host, "left_out": number}
            log.info("lines were left out", extra=extra)

    def _admit(self, principal: str, host: str) -> int | None:
        return self._limit.admit((principal, host), self._clock.monotonic())


def _fields(session: Session, api: str | None, **what: object) -> dict[str, object]:
    """The fields of a line in their order."""
    fields = {"principal": str(session.principal), **what, "host": session.host}
    if api is not None:
        fields["api"] = api
    fields["listener"] = session.listener
    return fields
