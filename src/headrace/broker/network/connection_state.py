"""The states of one connection and the one table of its transitions.

Rule 1: a condition that stops the next request is a state here, not a flag of `Connection`.
Rule 2: a state changes only through `TRANSITIONS`. A pair that is not in the table is a bug, and
raises `IllegalConnectionTransition` before anything else happens.

Four things stop the next request of a connection that has a whole frame in its buffer:

* A blocking request is in progress: a handler that is a coroutine, or a fast path. Kafka serves
  one request of a connection at a time; here only these do, and every other request may wait for
  replicas, a flush or data while later ones start.
* The client does not read its responses. The unsent bytes have passed the transport's high-water
  mark, and a further request would add to them.
* The client exceeded a quota. Its response is sent at once, and then the connection is muted for
  the throttle time (KIP-219). Requests that were accepted before are answered meanwhile.
* The broker stops. Requests that were accepted are answered, and no further one starts.

These conditions are independent, so the states are their combinations, except those without a
difference: a connection that drains starts no request, so it does not matter whether its client
reads or is throttled.

                 block/unblock                           drain
        READY <----------------> BLOCKED              any of these -> DRAINING, or, with a
          ^                         ^                   blocking request, DRAINING_BLOCKED
   pause/ |                  pause/ |
   resume |                  resume |                 DRAINING --all answered--> LINGERING
          v                         v
      CONGESTED <-------> BLOCKED_CONGESTED           any state --connection lost--> CLOSED

        each of these four <--mute/unmute--> the same with MUTED

A request starts in READY, with one exception: a fast path that cannot serve its frame restarts it
as an ordinary request, in the original order, in any state. Therefore CONGESTED, DRAINING and the
muted states have a transition for `BLOCK`.

A connection that has answered everything and drains is not closed at once. Closing a socket with
unread bytes resets it, and a reset can overtake the last responses. It lingers: the broker sends
the end of the stream and discards all further bytes, until the client closes the connection or a
short time has passed.

Some facts are not states, because they follow from the state and the buffers: whether the socket is
read, whether responses are about to be flushed, and how many requests wait for their response.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ConnectionState(Enum):
    """The states; each value is the name that logs and errors show."""

    READY = "ready"
    """The next request starts as soon as its frame is complete."""
    BLOCKED = "blocked"
    """A blocking request is in progress."""
    CONGESTED = "congested"
    """The client does not read its responses."""
    BLOCKED_CONGESTED = "blocked and congested"
    MUTED = "muted"
    """The client exceeded a quota and is throttled."""
    BLOCKED_MUTED = "blocked and muted"
    CONGESTED_MUTED = "congested and muted"
    BLOCKED_CONGESTED_MUTED = "blocked, congested and muted"
    DRAINING = "draining"
    """The broker stops: accepted requests are answered, further ones do not start."""
    DRAINING_BLOCKED = "draining and blocked"
    LINGERING = "lingering"
    """Every request is answered; further bytes are discarded."""
    CLOSED = "closed"

    # Enum's hash is a Python function: with it a transition takes 110 ns instead of 45.
    __hash__ = object.__hash__


class ConnectionEvent(Enum):
    """The events that change the state of a connection."""

    BLOCK = "a blocking request started"
    UNBLOCK = "the blocking request ended"
    PAUSE_WRITING = "unsent responses passed the high-water mark"
    RESUME_WRITING = "the client read its responses"
    MUTE = "the client exceeded a quota"
    UNMUTE = "the throttle time is over"
    DRAIN = "the broker stops"
    LINGER = "every accepted request is answered"
    LOSE = "the connection was lost"


class IllegalConnectionTransition(Exception):
    """An event that cannot happen in this state: a bug in `Connection` or in a handler."""


class Transitions(dict[ConnectionState, ConnectionState]):
    """The transitions of one event: from each state in which it may happen to the next state."""

    def __init__(
        self, event: ConnectionEvent, next_states: Mapping[ConnectionState, ConnectionState]
    ) -> None:
        super().__init__(next_states)
        self._event = event

    def __missing__(self, state: ConnectionState) -> ConnectionState:
        msg = f"{self._event.value}, on a connection that is {state.value}"
        raise IllegalConnectionTransition(msg)


def _table() -> Mapping[ConnectionEvent, Transitions]:
    s, event = ConnectionState, ConnectionEvent
    # A connection that drains starts no request anyway: these events change nothing.
    ending = {each: each for each in (s.DRAINING, s.DRAINING_BLOCKED, s.LINGERING, s.CLOSED)}
    muted = {
        s.READY: s.MUTED,
        s.BLOCKED: s.BLOCKED_MUTED,
        s.CONGESTED: s.CONGESTED_MUTED,
        s.BLOCKED_CONGESTED: s.BLOCKED_CONGESTED_MUTED,
    }
    table = {
        event.BLOCK: {
            s.READY: s.BLOCKED,
            s.CONGESTED: s.BLOCKED_CONGESTED,
            s.MUTED: s.BLOCKED_MUTED,
            s.CONGESTED_MUTED: s.BLOCKED_CONGESTED_MUTED,
            s.DRAINING: s.DRAINING_BLOCKED,
        },
        event.UNBLOCK: {
            s.BLOCKED: s.READY,
            s.BLOCKED_CONGESTED: s.CONGESTED,
            s.BLOCKED_MUTED: s.MUTED,
            s.BLOCKED_CONGESTED_MUTED: s.CONGESTED_MUTED,
            s.DRAINING_BLOCKED: s.DRAINING,
            s.CLOSED: s.CLOSED,
        },
        event.PAUSE_WRITING: {
            s.READY: s.CONGESTED,
            s.BLOCKED: s.BLOCKED_CONGESTED,
            s.MUTED: s.CONGESTED_MUTED,
            s.BLOCKED_MUTED: s.BLOCKED_CONGESTED_MUTED,
            **ending,
        },
        event.RESUME_WRITING: {
            s.CONGESTED: s.READY,
            s.BLOCKED_CONGESTED: s.BLOCKED,
            s.CONGESTED_MUTED: s.MUTED,
            s.BLOCKED_CONGESTED_MUTED: s.BLOCKED_MUTED,
            **ending,
        },
        event.MUTE: {**muted, **{each: each for each in muted.values()}, **ending},
        event.UNMUTE: {after: before for before, after in muted.items()},
        event.DRAIN: {
            s.READY: s.DRAINING,
            s.BLOCKED: s.DRAINING_BLOCKED,
            s.CONGESTED: s.DRAINING,
            s.BLOCKED_CONGESTED: s.DRAINING_BLOCKED,
            s.MUTED: s.DRAINING,
            s.BLOCKED_MUTED: s.DRAINING_BLOCKED,
            s.CONGESTED_MUTED: s.DRAINING,
            s.BLOCKED_CONGESTED_MUTED: s.DRAINING_BLOCKED,
            **ending,
        },
        event.LINGER: {s.DRAINING: s.LINGERING},
        event.LOSE: dict.fromkeys(s, s.CLOSED),
    }
    return {each: Transitions(each, next_states) for each, next_states in table.items()}


TRANSITIONS: Final = _table()

BLOCKED_STATES: Final = frozenset(TRANSITIONS[ConnectionEvent.UNBLOCK]) - {ConnectionState.CLOSED}
"""A blocking request is in progress."""

MUTED_STATES: Final = frozenset(TRANSITIONS[ConnectionEvent.UNMUTE])
"""No request starts before the throttle time is over."""
