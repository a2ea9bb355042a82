"""Finds the numbers of bad lines in their files, so that a user can fix them.

Spark's tasks start anywhere in a file, so they do not know the number of a line. The number is
found later, by the content of the line, and only in files with bad lines. Lines with the same
content have the same error, and each of them gets its own number.
"""

import io
from collections import deque
from collections.abc import Collection, Mapping
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from headrace.pipeline.core.line_digest import Digest, digest_of
from headrace.pipeline.sinks.file_stores import open_store
from headrace.pipeline.sinks.table_sink import SinkError

Numbers = dict[Digest, deque[int]]
"""The line numbers of each content, from 1, in order."""


def path_of_uri(uri: str) -> str:
    """The path of a file from its URI, without `file:` and without escapes."""
    return unquote(urlsplit(uri).path if uri.startswith("file:") else uri)


def line_numbers(
    path: str, storage_options: Mapping[str, str] | None, wanted: Collection[Digest]
) -> Numbers:
    """The numbers of all lines with wanted content; empty for a file that cannot be read."""
    found: Numbers = {digest: deque() for digest in wanted}
    try:
        store, inside = open_store(path, storage_options)
        with store.open_input_stream(inside, compression="detect") as stream:
            # Latin-1 decodes every byte; the line ends are the same as Spark's.
            for number, line in enumerate(io.TextIOWrapper(stream, "latin-1", newline=None), 1):
                numbers = found.get(digest_of(line.encode("latin-1")))
                if numbers is not None:
                    numbers.append(number)
    except (OSError, pa.ArrowException, SinkError):
        return {}
    return found
