"""The authorization of one request, before its handler.

With an authorizer, dispatch calls `authorize` of the handler's module first. It asks for the
operations that Kafka requires, in Kafka's order and before anything else, so that a refusal does
not reveal whether a resource exists. Its verdict is one of three:

* None: nothing is denied.
* A response: the request is refused.
* A function: the denied parts were removed from the request. The function adds their errors to the
  handler's response.

Requests whose handlers need the checks in their middle (Produce, Fetch, share fetches) call
`AccessControl` themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from operator import attrgetter
from typing import Any, Final, TypeVar

from headrace.broker.access.access_control import AccessControl
from headrace.broker.access.denied_codes import DENIED_CODE
from headrace.protocol.api import ApiKey, ApiSpec
from headrace.protocol.error_responses import error_response, failed_parts
from headrace.protocol.errors import ErrorCode
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.session import Session

AddDenied = Callable[[Any], None]
"""Adds the errors of the denied parts to a response."""
Verdict = Struct | AddDenied | None
Authorize = Callable[[Any, "RequestCheck", Any], Verdict]
"""`authorize` of a handler's module: the broker, the check, the request."""

T = TypeVar("T")

_FIRST_LOG_DIRS_WITH_CODE: Final = 3
_NAME: Final = attrgetter("name")


class RequestCheck:
    """Asks whether the sender of one request may do what it asks for."""

    __slots__ = ("_request", "_spec", "access", "session", "version")

    def __init__(
        self, access: AccessControl, session: Session, spec: ApiSpec, version: int, request: Struct
    ) -> None:
        self.access = access
        self.session = session
        self.version = version
        self._spec = spec
        self._request = request

    def refuse(self, code: ErrorCode) -> Struct:
        """The response to the refused request."""
        if self._spec.key is ApiKey.DESCRIBE_LOG_DIRS and self.version < _FIRST_LOG_DIRS_WITH_CODE:
            return self._spec.response()  # as in Kafka: clients take an empty response for it
        refused = error_response(self._spec, self._request, self.version, code)
        return self._spec.response() if refused is None else refused

    def require(self, operation: AclOperation, type_: AclResourceType, name: str) -> Struct | None:
        """The refusal, if the sender may not do this."""
        if self.access.allows(self.session, operation, type_, name):
            return None
        return self.refuse(DENIED_CODE[type_])

    def denied_names(
        self, operation: AclOperation, type_: AclResourceType, names: Iterable[str]
    ) -> frozenset[str]:
        """The names on which the sender may not do this; each is decided once."""
        return frozenset(
            name
            for name in dict.fromkeys(names)
            if not self.access.allows(self.session, operation, type_, name)
        )

    def hidden_names(
        self, operation: AclOperation, type_: AclResourceType, names: Iterable[str]
    ) -> frozenset[str]:
        """Like `denied_names`, for resources that a response leaves out: nothing is logged."""
        return frozenset(
            name
            for name in dict.fromkeys(names)
            if not self.access.shows(self.session, operation, type_, name)
        )

    def filter_topics(
        self,
        operation: AclOperation,
        name_of: Callable[[Any], str | None] = _NAME,
        *,
        group_errors_first: bool = False,
    ) -> Verdict:
        """Removes the denied topics from `topics` of the request. A topic without a name has an
        unknown id, which the handler reports. With `group_errors_first` the handler also runs if
        no topic is left: an error of the group is the whole response."""
        topics: list[Any] = self._request.topics  # type: ignore[attr-defined]
        names = (name for name in map(name_of, topics) if name is not None)
        denied = self.denied_names(operation, AclResourceType.TOPIC, names)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return self.remove_coded_parts(
            "topics",
            lambda topic: code if name_of(topic) in denied else None,
            handles_rest=group_errors_first,
        )

    def filter_names(self, array: str, operation: AclOperation, type_: AclResourceType) -> Verdict:
        """Removes the denied names from an array of names in the request."""
        denied = self.denied_names(operation, type_, getattr(self._request, array))
        return self.remove_parts(array, denied.__contains__, DENIED_CODE[type_])

    def remove_parts(
        self,
        array: str,
        is_denied: Callable[[Any], bool],
        code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        message: str | None = None,
    ) -> Verdict:
        """Removes the denied elements of an array of the request; the verdict about them."""
        return self.remove_coded_parts(
            array, lambda part: code if is_denied(part) else None, message
        )

    def remove_coded_parts(
        self,
        array: str,
        code_of: Callable[[Any], ErrorCode | None],
        message: str | None = None,
        *,
        handles_rest: bool = False,
    ) -> Verdict:
        """Like `remove_parts`, for parts with different codes; None means that one is allowed.
        With `handles_rest` the handler runs even if all parts are denied."""
        allowed: list[Any] = []
        denied: dict[ErrorCode, list[Any]] = {}
        for part in getattr(self._request, array):
            code = code_of(part)
            (allowed if code is None else denied.setdefault(code, [])).append(part)
        if not denied:
            return None
        failed: list[Struct] = []
        name = ""
        for code, parts in denied.items():
            setattr(self._request, array, parts)
            name, answers = failed_parts(self._spec, self._request, self.version, code, message)
            failed += answers
        setattr(self._request, array, allowed)
        if not (allowed or handles_rest):
            return self._spec.response(**{name: failed})
        return lambda response: add_parts(response, name, failed)

    def and_change(self, verdict: Verdict, change: AddDenied) -> Verdict:
        """The verdict, and a change to the response of a request that is not refused."""
        if isinstance(verdict, Struct):
            return verdict

        def change_and_add(response: Struct) -> None:
            change(response)
            if verdict is not None:
                verdict(response)

        return change_and_add


def add_parts(response: Struct, name: str, failed: Iterable[Struct]) -> None:
    """Adds the failed parts, unless the whole request has failed."""
    if not getattr(response, "error_code", ErrorCode.NONE):
        setattr(response, name, [*getattr(response, name), *failed])


def add_to_reply(reply: Any, add: AddDenied) -> Any:  # noqa: ANN401  # each handler has its type
    """A handler's reply, with `add` applied to the response."""
    if isinstance(reply, asyncio.Future):
        # This callback runs before those that send the response, which are added later.
        reply.add_done_callback(lambda done: _add_to_result(done, add))
        return reply
    if asyncio.iscoroutine(reply):
        return _add_when_ready(reply, add)
    add(reply)
    return reply


def _add_to_result(done: asyncio.Future[Any], add: AddDenied) -> None:
    if not done.cancelled() and done.exception() is None:
        add(done.result())


async def _add_when_ready(reply: Coroutine[object, object, T], add: AddDenied) -> T:
    response = await reply
    add(response)
    return response
