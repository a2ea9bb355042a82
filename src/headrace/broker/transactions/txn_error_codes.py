"""Error codes of the transaction coordinator, translated for the version of a request.

PRODUCER_FENCED is fatal for clients. Requests of old versions, and producers that have sent the
coordinator no request themselves, get INVALID_PRODUCER_EPOCH instead.
"""

from typing import Final

from headrace.protocol.errors import ErrorCode

# The coordinator is unavailable at the moment. Clients, also old ones, retry this error without a
# request for new metadata.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def fenced_error(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """`code` for a request whose version may not know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def verification_error(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """`code` for a producer whose broker asked the transaction coordinator on its behalf."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return fenced_error(code, knows_fenced=False)


def produce_error(code: ErrorCode, *, adds: bool, knows_abortable: bool) -> ErrorCode:
    """`code` for Produce; `adds` says that the write adds its partition to the transaction."""
    if code in _TRY_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return verification_error(code, knows_abortable=knows_abortable)
