"""Where lines are in their files, for whoever has to mend them.

Spark's tasks begin anywhere in a file, so none of them knows a line's number. It is looked for
afterwards, only in files that have bad lines: by what a line says. Lines that say the same are bad
in the same way, and each of them gets a number of its own.
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
"""The numbers of the lines of one content, from 1, in order."""


def path_of_uri(uri: str) -> str:
    """The path of a file as its owner writes it."""
    return unquote(urlsplit(uri).path if uri.startswith("file:") else uri)


def line_numbers(
    path: str, storage_options: Mapping[str, str] | None, wanted: Collection[Digest]
) -> Numbers:
    """The numbers of all lines that say what is wanted; none of a file that cannot be read."""
    found: Numbers = {digest: deque() for digest in wanted}
    try:
        store, inside = open_store(path, storage_options)
        with store.open_input_stream(inside, compression="detect") as stream:
            # Every byte is a character of this encoding; the ends of lines are those of Spark.
            for number, line in enumerate(io.TextIOWrapper(stream, "latin-1", newline=None), 1):
                numbers = found.get(digest_of(line.encode("latin-1")))
                if numbers is not None:
                    numbers.append(number)
    except (OSError, pa.ArrowException, SinkError):
        return {}
    return found
