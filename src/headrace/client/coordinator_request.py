"""Requests about many things that are asked about one: its coordinator, and one item of answer."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorNode
from headrace.client.results import moved
from headrace.protocol.struct import Struct


class Item(Protocol):
    """What the answer says of one thing."""

    error_code: int


R = TypeVar("R", bound=Struct)
T = TypeVar("T", bound=Item)


async def ask_about(
    one: CoordinatorNode,
    client: ClusterClient,
    request: Struct,
    answer: type[R],
    items: Callable[[R], Sequence[T]],
    *,
    timeout_s: float,
) -> T:
    """What its coordinator says of `one`, which the request must name alone. The code is the
    caller's to read, unless it only says that the coordinator is elsewhere."""
    got = await client.send(
        request,
        answer,
        to=one,
        timeout_s=timeout_s,
        code_of=lambda got: moved(item.error_code for item in items(got)),
    )
    (item,) = items(got)
    return item
