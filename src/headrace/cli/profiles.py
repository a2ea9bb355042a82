"""Client settings from a profile, the environment and the command line.

A profile is a table in a TOML file with client settings under Kafka's names:

    profile = "local"                       # the default profile

    [profiles.local]
    bootstrap.servers = "127.0.0.1:9092"

    [profiles.production]
    bootstrap.servers = "kafka-1:9093,kafka-2:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "me"

The command line overrides the environment, and the environment overrides the profile.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.cli.error_messages import not_found, usage

SERVERS: Final = "bootstrap.servers"
DEFAULT_SERVERS: Final = "127.0.0.1:9092"
CONFIG_VARIABLE: Final = "HEADRACE_CONFIG"
PROFILE_VARIABLE: Final = "HEADRACE_PROFILE"
SERVERS_VARIABLE: Final = "HEADRACE_BOOTSTRAP"
# The variable of sasl.username is HEADRACE_SASL_USERNAME, and so on.
FROM_ENVIRONMENT: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
)
SECRET: Final = frozenset({"sasl.password", "ssl.key.password"})


@dataclass(frozen=True, slots=True)
class Profiles:
    """The contents of the configuration file."""

    path: Path
    chosen: str | None
    by_name: Mapping[str, Mapping[str, str]]


def config_path(environment: Mapping[str, str]) -> Path:
    """The path of the file: HEADRACE_CONFIG, else in the user's configuration directory."""
    named = environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    folder = environment.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if Path(folder).is_absolute() else Path.home() / ".config"
    return base / "headrace" / "config.toml"


def read_profiles(environment: Mapping[str, str]) -> Profiles:
    """The profiles of the file; none if the default file does not exist."""
    path = config_path(environment)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if environment.get(CONFIG_VARIABLE):
            raise usage(f"{CONFIG_VARIABLE} names {path}, which does not exist") from None
        return Profiles(path, None, {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise usage(f"{path} is not a TOML file: {error}") from error
    except OSError as error:
        raise usage(f"cannot read {path}: {error.strerror}") from error
    tables = content.get("profiles", {})
    chosen = content.get("profile")
    if not isinstance(tables, dict) or not isinstance(chosen, str | None):
        raise usage(f'{path}: expected profile = "NAME" and tables named [profiles.NAME]')
    by_name = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise usage(f"{path}: [profiles.{name}] is not a table of settings")
        by_name[name] = _flatten(table)
    return Profiles(path, chosen, by_name)


def _flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """The settings with dotted names: TOML reads `sasl.username` as a table in a table."""
    settings = {}
    for key, value in table.items():
        if isinstance(value, dict):
            settings.update(_flatten(value, f"{prefix}{key}."))
        else:
            settings[prefix + key] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def client_settings(
    *,
    servers: str | None,
    profile: str | None,
    overrides: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The effective settings; they always include the servers."""
    env = os.environ if environment is None else environment
    profiles = read_profiles(env)
    named = profile or env.get(PROFILE_VARIABLE) or profiles.chosen
    settings = {SERVERS: DEFAULT_SERVERS}
    if named:
        if named not in profiles.by_name:
            raise not_found(f"profile in {profiles.path} named", named, profiles.by_name)
        settings.update(profiles.by_name[named])
    for name in FROM_ENVIRONMENT:
        value = env.get("HEADRACE_" + name.upper().replace(".", "_"))
        if value:
            settings[name] = value
    if env.get(SERVERS_VARIABLE):
        settings[SERVERS] = env[SERVERS_VARIABLE]
    settings.update(overrides)
    if servers:
        settings[SERVERS] = servers
    return settings
