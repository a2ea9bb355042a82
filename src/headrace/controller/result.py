"""What the controller answers: records to commit, and one result for each item of the request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from headrace.cluster.records import MetadataRecord
from headrace.protocol.errors import ErrorCode

ResultT = TypeVar("ResultT")


class ApiError(NamedTuple):
    """An error code with the sentence that goes with it; `NONE` is success."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


NO_ERROR = ApiError()


class Refused(Exception):
    """A check failed: carries the error of the one item it belongs to."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.error = ApiError(code, code.message if message is None else message)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[ResultT]):
    """Commit `records` (there may be none), then answer `results`. Nothing has happened yet."""

    records: tuple[MetadataRecord, ...]
    results: Sequence[ResultT]
