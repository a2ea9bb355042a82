"""Pages of a list."""

from headrace.console.web.pagination import paged


def test_a_page_has_its_rows_and_numbers() -> None:
    page = paged(range(120), 2, 50)
    assert (page.rows[0], page.first_row, page.last_row, page.last) == (50, 51, 100, 3)


def test_numbers_outside_the_list_are_moved_into_it() -> None:
    assert paged(range(120), 99, 50).number == 3
    assert paged(range(120), 0, 50).number == 1
    assert paged([], 1, 50).first_row == 0
    assert paged(range(10), 1, 7).size == 50


def test_links_name_the_ends_the_neighbours_and_gaps() -> None:
    assert paged(range(1000), 10, 50).links == [1, None, 9, 10, 11, None, 20]
    assert paged(range(100), 1, 50).links == [1, 2]
