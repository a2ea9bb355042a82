"""Requests that every broker answers for itself, such as the list of the groups it coordinates.

A broker that is dead, hangs or refuses the request is named with its error. A broker that
hangs delays the answers of the others by `ANSWER_S` at most.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError, DeadlineExceeded, RequestRefused

T = TypeVar("T")

ANSWER_S: Final = 4.0
"""A broker that serves clients answers within this time."""

AskBroker: TypeAlias = Callable[[int, float], Awaitable[T]]
"""Asks the broker with this id, for at most this many seconds."""


@dataclass(frozen=True, slots=True)
class BrokerAnswers(Generic[T]):
    """The answer of each broker, or its error."""

    answers: Mapping[int, T]
    failures: Mapping[int, ClientError]

    def raise_failure(self) -> None:
        """Raises the first error, if there is one."""
        for error in self.failures.values():
            raise error


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """What the brokers listed; what the brokers in `failures` would list is missing."""

    items: Sequence[T]
    failures: Mapping[int, ClientError]

    def complete(self) -> Sequence[T]:
        """The items; raises the first error if a broker is missing."""
        for error in self.failures.values():
            raise error
        return self.items


async def ask_brokers(
    brokers: Sequence[int], ask: AskBroker[T], *, timeout_s: float
) -> BrokerAnswers[T]:
    """Asks these brokers at the same time."""
    # A single broker keeps no others waiting.
    limit_s = timeout_s if len(brokers) == 1 else min(timeout_s, ANSWER_S)
    found = await asyncio.gather(
        *(_ask_broker(broker, ask, limit_s, timeout_s) for broker in brokers),
        return_exceptions=True,
    )
    answers: dict[int, T] = {}
    failures: dict[int, ClientError] = {}
    for broker, answer in zip(brokers, found, strict=True):
        if isinstance(answer, ClientError):
            failures[broker] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            answers[broker] = answer
    return BrokerAnswers(answers, failures)


async def _ask_broker(broker: int, ask: AskBroker[T], limit_s: float, timeout_s: float) -> T:
    try:
        return await ask(broker, limit_s)
    except DeadlineExceeded as error:
        rest_s = timeout_s - limit_s
        if rest_s <= 0 or not isinstance(error.last, RequestRefused):
            raise
    # It answers that it is not ready: a coordinator that loads its state may need longer.
    return await ask(broker, rest_s)


async def list_at_brokers(
    client: ClusterClient, ask: AskBroker[Sequence[T]], *, timeout_s: float
) -> Listing[T]:
    """The items of all brokers, by broker id; raises the first error if no broker answers."""
    await client.refresh([], timeout_s=timeout_s)
    found = await ask_brokers(sorted(client.metadata.brokers), ask, timeout_s=timeout_s)
    if not found.answers:
        found.raise_failure()
    items = [item for listed in found.answers.values() for item in listed]
    return Listing(items, found.failures)
