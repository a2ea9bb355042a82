"""Parses NAME=VALUE pairs. Pure."""

from collections.abc import Sequence

from headrace.cli.error_messages import usage


def parse_name_value_pairs(words: Sequence[str], flag: str) -> dict[str, str]:
    """The NAME=VALUE pairs of an option or argument; a later value replaces an earlier one."""
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            option = flag.partition(" ")[0]
            raise usage(f"{option} takes NAME=VALUE, not {word!r}")
        pairs[name.strip()] = value.strip()
    return pairs
