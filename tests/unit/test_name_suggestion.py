"""The error about an unknown name suggests a similar one, if there is one."""

import subprocess
import sys

import pytest

from headrace.name_suggestion import nearest_name

TOPICS = ("orders", "orders-eu", "payments")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("oders", "orders"),
        ("orders-us", "orders-eu"),
        ("payment", "payments"),
        ("orders", "orders"),
        ("clicks", None),
        ("", None),
    ],
)
def test_the_most_similar_name_is_suggested(name: str, nearest: str | None) -> None:
    assert nearest_name(name, TOPICS) == nearest


def test_a_higher_cutoff_suggests_only_names_with_few_differences() -> None:
    assert nearest_name("ordering", TOPICS) == "orders"
    assert nearest_name("ordering", TOPICS, cutoff=0.8) is None
    assert nearest_name("oders", TOPICS, cutoff=0.8) == "orders"


def test_known_names_may_be_any_iterable() -> None:
    assert nearest_name("oders", (name for name in TOPICS)) == "orders"
    assert nearest_name("oders", dict.fromkeys(TOPICS, 1)) == "orders"
    assert nearest_name("oders", ()) is None


def test_the_import_does_not_load_difflib() -> None:
    """A broker imports the module at its start, and rarely needs a suggestion."""
    script = "import sys, headrace.name_suggestion; sys.exit('difflib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
