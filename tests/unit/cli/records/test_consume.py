"""`consume` ends when the reader of its output has ended, also while no record arrives."""

import os
from pathlib import Path

import pytest

from headrace.cli.records.consume import check_reader


def test_a_pipe_whose_reader_has_ended_is_broken() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        check_reader(stream)
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            check_reader(stream)


def test_a_file_has_no_reader_that_could_end(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        check_reader(stream)
