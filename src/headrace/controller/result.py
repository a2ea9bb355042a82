"""Controller results: the records to commit, and one result for each item of the request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.errors import ErrorCode

ResultT = TypeVar("ResultT")


class ApiError(NamedTuple):
    """An error code and its message; `NONE` is success."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


NO_ERROR = ApiError()


class Refused(Exception):
    """A check failed. Carries the error of one item of the request."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.error = ApiError(code, code.message if message is None else message)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[ResultT]):
    """Commit `records` (possibly none), then answer with `results`. Nothing has changed yet."""

    records: tuple[MetadataRecord, ...]
    results: Sequence[ResultT]
