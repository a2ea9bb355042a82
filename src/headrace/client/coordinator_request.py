"""Requests for one group or transactional id, sent to its coordinator."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorNode
from headrace.client.results import Refusal, moved, refused
from headrace.protocol.struct import Struct


class Item(Protocol):
    """One item of the response."""

    error_code: int


class ItemWithMessage(Item, Protocol):
    """One item of the response, with an error message."""

    error_message: str | None


R = TypeVar("R", bound=Struct)
T = TypeVar("T", bound=Item)
M = TypeVar("M", bound=ItemWithMessage)


async def send_to_coordinator(
    one: CoordinatorNode,
    client: ClusterClient,
    request: Struct,
    answer: type[R],
    items: Callable[[R], Sequence[T]],
    *,
    timeout_s: float,
) -> T:
    """Sends the request to the coordinator of `one` and returns the only item of the response.

    The request must name `one` alone. The caller handles the item's error code; after a code for a
    moved coordinator the request is retried.
    """
    got = await client.send(
        request,
        answer,
        to=one,
        timeout_s=timeout_s,
        code_of=lambda got: moved(item.error_code for item in items(got)),
    )
    (item,) = items(got)
    return item


async def send_or_refuse(
    one: CoordinatorNode,
    client: ClusterClient,
    request: Struct,
    answer: type[R],
    items: Callable[[R], Sequence[M]],
    *,
    timeout_s: float,
) -> M | Refusal:
    """Like `send_to_coordinator`; an item with an error code becomes a `Refusal`."""
    item = await send_to_coordinator(one, client, request, answer, items, timeout_s=timeout_s)
    return refused(item.error_code, item.error_message) if item.error_code else item
