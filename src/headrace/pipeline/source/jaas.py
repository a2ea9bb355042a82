"""Reads the login from `sasl.jaas.config`, as Java clients write it. Pure."""

import re
from typing import Final

_ENTRY: Final = re.compile(
    r'(username|password|tokenauth)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(true|false))'
)


def credentials_of(jaas_config: str) -> dict[str, str]:
    """`sasl.username`, `sasl.password` and `sasl.tokenauth` from a `sasl.jaas.config`; empty if it
    has none."""
    return {
        f"sasl.{name}": re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _ENTRY.findall(jaas_config)
    }
