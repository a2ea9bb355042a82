"""The log of changes: who changed which topic, setting or assignment.

The logger is `headrace.changes`. Every line has the principal, the change, the client id, the host
and the API. It is written where the change is decided, by the controller; a forwarded request has
the identity of its client.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from headrace.broker.access.request_origin import parse_origin
from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.quotas.exemption import BROKER_CLIENT_ID_PREFIX
from headrace.cluster.change_events import change_events
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.result import ControllerResult
from headrace.log_event import LogEvent
from headrace.log_levels import CHANGES_LOGGER
from headrace.protocol.api import APIS, ApiKey
from headrace.security.principal import ANONYMOUS
from headrace.security.session import INTERNAL, Session

T = TypeVar("T")

log = logging.getLogger(CHANGES_LOGGER)

THIS_BROKER: Final = "broker"
"""The principal of changes that a broker makes for itself."""


class Request(Protocol):
    """The request that makes a change."""

    @property
    def session(self) -> Session: ...

    @property
    def client_id(self) -> str: ...


class _OwnRequest(NamedTuple):
    """A change that a broker makes for itself, for example an internal topic."""

    session: Session = INTERNAL
    client_id: str = ""


OWN_REQUEST: Final = _OwnRequest()


async def decide_logged(
    metadata: Metadata,
    request: Request,
    api: ApiKey,
    decision: Callable[[MetadataController], ControllerResult[T]],
) -> Sequence[T]:
    """Runs the decision of a request, and logs what it has changed."""
    made: list[tuple[MetadataImage, Sequence[MetadataRecord]]] = []

    def noted(controller: MetadataController) -> ControllerResult[T]:
        before = controller.image
        result = decision(controller)
        made[:] = [(before, result.records)]
        return result

    results = await metadata.decide(noted)
    if log.isEnabledFor(logging.INFO):
        for before, records in made:
            log_changes(request, api, change_events(before, records))
    return results


def log_changes(request: Request, api: ApiKey, events: Iterable[LogEvent]) -> None:
    """Logs changes that this request has made."""
    session, client_id = request.session, request.client_id
    host = session.host
    if session.principal == ANONYMOUS and client_id.startswith(BROKER_CLIENT_ID_PREFIX):
        client_id, host = parse_origin(client_id) or (client_id, host)
    by = {"client_id": client_id, "host": host, "api": APIS[api].name}
    principal = THIS_BROKER if session.is_internal else str(session.principal)
    for level, change, fields in events:
        log.log(level, change, extra={"principal": principal, **fields, **by})
