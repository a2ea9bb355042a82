"""Acknowledgements as clients send them."""

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.share_fetch import ShareFetchAcknowledgementBatch
from headrace.share.acknowledgements import read_acknowledgements
from headrace.share.errors import AcknowledgeError
from headrace.share.record_state import Acknowledgement, AcknowledgeType

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def said(first: int, last: int, *types: int) -> ShareFetchAcknowledgementBatch:
    return ShareFetchAcknowledgementBatch(
        first_offset=first, last_offset=last, acknowledge_types=list(types)
    )


def test_one_type_stands_for_a_whole_range() -> None:
    assert read_acknowledgements([said(3, 9, 1)], renews=False) == [Acknowledgement(3, 9, ACCEPT)]


def test_types_for_each_offset_become_runs() -> None:
    assert read_acknowledgements([said(3, 7, 1, 1, 2, 0, 0)], renews=False) == [
        Acknowledgement(3, 4, ACCEPT),
        Acknowledgement(5, 5, RELEASE),
        Acknowledgement(6, 7, GAP),
    ]


def test_neighbours_of_one_type_are_one_run() -> None:
    batches = [said(0, 0, 1), said(1, 3, 1), said(4, 4, 2), said(6, 6, 2)]
    assert read_acknowledgements(batches, renews=False) == [
        Acknowledgement(0, 3, ACCEPT),
        Acknowledgement(4, 4, RELEASE),
        Acknowledgement(6, 6, RELEASE),
    ]


@pytest.mark.parametrize(
    "batches",
    [
        [said(5, 4, 1)],
        [said(0, 4)],
        [said(0, 4, 1, 1)],
        [said(0, 0, 5)],
        [said(0, 0, -1)],
        [said(0, 0, 4)],
        [said(0, 4, 1), said(4, 6, 1)],
        [said(5, 6, 1), said(0, 1, 1)],
        [said(-2, -1, 1)],
    ],
)
def test_nonsense_is_refused(batches: list[ShareFetchAcknowledgementBatch]) -> None:
    with pytest.raises(AcknowledgeError) as refused:
        read_acknowledgements(batches, renews=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_only_a_request_that_renews_may_renew() -> None:
    assert read_acknowledgements([said(0, 0, 4)], renews=True) == [Acknowledgement(0, 0, RENEW)]
