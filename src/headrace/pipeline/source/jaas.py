"""Java's way to write a name and a password, for people who bring their Kafka settings. Pure."""

import re
from typing import Final

_ENTRY: Final = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def credentials_of(jaas_config: str) -> dict[str, str]:
    """`sasl.username` and `sasl.password` out of a `sasl.jaas.config`; empty without one."""
    return {
        f"sasl.{name}": re.sub(r"\\(.)", r"\1", value)
        for name, value in _ENTRY.findall(jaas_config)
    }
