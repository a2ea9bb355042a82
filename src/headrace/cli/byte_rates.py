"""Bytes per second, as options take them. Pure."""

from headrace.cli.error_messages import usage
from headrace.operations.quota_text import read_byte_rate


def parse_byte_rate(text: str, option: str) -> int:
    """`50M` as bytes per second; the units are k, M and G, and ki, Mi and Gi."""
    rate = read_byte_rate(text)
    if rate is None:
        raise usage(f"{option} takes bytes per second, such as 50M or 800k, not {text!r}")
    return rate
