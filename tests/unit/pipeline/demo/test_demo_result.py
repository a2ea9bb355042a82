"""The demo reports every difference between the sent orders and its table and dead letters."""

from collections.abc import Sequence

import pytest

from headrace.pipeline.demo.demo_result import differences
from headrace.pipeline.demo.traffic import Place

BROKEN = {(0, 1): "NotJson", (1, 0): "MissingField"}
LANDED = [(0, 0), (0, 2), (1, 1)]
LETTERS = [((0, 1), "NotJson"), ((1, 0), "MissingField")]


def test_a_complete_result_has_no_difference() -> None:
    assert differences(5, BROKEN, LANDED, LETTERS) == []
    assert differences(0, {}, [], []) == []


@pytest.mark.parametrize(
    ("landed", "letters", "said"),
    [
        ([*LANDED, (0, 2)], LETTERS, "1 rows are there twice (0@2)"),
        (LANDED, [*LETTERS, LETTERS[0]], "1 dead letters are there twice (0@1)"),
        ([*LANDED, (0, 1)], LETTERS, "1 broken orders landed (0@1)"),
        (LANDED, LETTERS[:1], "1 broken orders are not among the dead letters (1@0)"),
        (LANDED, [*LETTERS, ((1, 1), "NotJson")], "1 good orders are among the dead letters (1@1)"),
        (LANDED[:2], LETTERS, "2 of 3 good orders landed"),
        (
            LANDED,
            [LETTERS[0], ((1, 0), "NotJson")],
            "1 dead letters name another error than expected (1@0)",
        ),
    ],
)
def test_a_difference_is_reported_with_its_location(
    landed: Sequence[Place], letters: Sequence[tuple[Place, str]], said: str
) -> None:
    assert said in differences(5, BROKEN, landed, letters)
