"""Reads user name and password from `sasl.jaas.config`, as Java clients write them. Pure."""

import re
from typing import Final

_ENTRY: Final = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def credentials_of(jaas_config: str) -> dict[str, str]:
    """`sasl.username` and `sasl.password` from a `sasl.jaas.config`; empty if it has none."""
    return {
        f"sasl.{name}": re.sub(r"\\(.)", r"\1", value)
        for name, value in _ENTRY.findall(jaas_config)
    }
