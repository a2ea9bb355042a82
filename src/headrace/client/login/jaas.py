"""Reads the login settings in `sasl.jaas.config`, as Java clients write them. Pure."""

import re
from typing import Final

_ENTRY: Final = re.compile(r"""([A-Za-z_]\w*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))""")
_SETTINGS: Final = {
    "username": "sasl.username",
    "password": "sasl.password",
    "tokenauth": "sasl.tokenauth",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}


def credentials_of(jaas_config: str) -> dict[str, str]:
    """The login settings by their names in other clients, such as `sasl.username`."""
    return {
        _SETTINGS[name]: re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _ENTRY.findall(jaas_config)
        if name in _SETTINGS
    }
