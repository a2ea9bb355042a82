"""What the clients of a run did and saw. Times are seconds of one monotonic clock.

An outcome is `unknown` when the client cannot know it: a send without a response may be in the log
or not, and both are correct.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, NamedTuple

NO_OFFSET = -1


class Found(NamedTuple):
    """A record as a reader received it."""

    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Send:
    """One record that a client sent.

    `producer` identifies one incarnation of a client's producer; `order` counts its sends.
    """

    client: str
    producer: int
    order: int
    partition: int
    value: str
    invoked: float
    completed: float
    outcome: Literal["ok", "unknown"]
    offset: int = NO_OFFSET
    transaction: str = ""


@dataclass(frozen=True, slots=True)
class Transaction:
    """`end_invoked` is when the client first requested the commit or abort; infinite if never."""

    name: str
    client: str
    outcome: Literal["committed", "aborted", "unknown"]
    end_invoked: float
    completed: float


@dataclass(frozen=True, slots=True)
class Poll:
    """One poll with read_committed. `assignment` changes when the reader's position may jump."""

    client: str
    assignment: int
    subscribed: bool
    began: float
    ended: float
    records: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """A query for the end offset of a partition, uncommitted records included."""

    client: str
    partition: int
    began: float
    end_offset: int


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    target: str
    began: float
    ended: float


@dataclass(slots=True)
class History:
    """`final` is what a new reader found in each partition after all faults had ended.

    `complete` says whether it reached the end of all of them.
    """

    sends: list[Send] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    final: Mapping[int, Sequence[Found]] = field(default_factory=dict)
    complete: bool = False

    def as_json(self) -> dict[str, object]:
        return asdict(self)
