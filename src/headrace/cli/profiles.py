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
    sasl.password.file = "/run/secrets/kafka"

A properties file is a profile, too: `--profile ./client.properties`. The command line overrides the
environment, and the environment overrides the profile.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.cli.error_messages import not_found, usage
from headrace.cli.secrets import COMMAND, FILE, is_secret
from headrace.cluster.java_properties import BadProperties, read_properties

SERVERS: Final = "bootstrap.servers"
DEFAULT_SERVERS: Final = "127.0.0.1:9092"
CONFIG_VARIABLE: Final = "HEADRACE_CONFIG"
PROFILE_VARIABLE: Final = "HEADRACE_PROFILE"
SERVERS_VARIABLE: Final = "HEADRACE_BOOTSTRAP"
_SECURITY: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.tokenauth",
    "sasl.jaas.config",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "http.username",
    "http.password",
    "http.bearer.token",
    "https.ca.location",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
)

FROM_ENVIRONMENT: Final = (
    *_SECURITY,
    *(name + place for name in _SECURITY if is_secret(name) for place in (FILE, COMMAND)),
)
PROPERTIES: Final = ".properties"


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


def read_properties_file(path: Path) -> dict[str, str]:
    """Client settings as Java clients, kcat and librdkafka read them."""
    try:
        return read_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise usage(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, BadProperties) as error:
        raise usage(f"{path} is not a properties file: {error}") from error


def profile_file(environment: Mapping[str, str], profile: str | None) -> Path:
    """The file that the settings of the chosen profile are in."""
    named = profile or environment.get(PROFILE_VARIABLE)
    if named and _is_path(named):
        return Path(named)
    return config_path(environment)


def _is_path(profile: str) -> bool:
    return profile.endswith(PROPERTIES) or os.sep in profile


def client_settings(
    *,
    servers: str | None,
    profile: str | None,
    overrides: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The effective settings; they always include the servers."""
    env = os.environ if environment is None else environment
    settings = {SERVERS: DEFAULT_SERVERS, **_profile_settings(profile, env)}
    variables = {name: env.get(variable_of(name), "") for name in FROM_ENVIRONMENT}
    variables[SERVERS] = env.get(SERVERS_VARIABLE, "")
    _override(settings, {name: value for name, value in variables.items() if value})
    _override(settings, overrides)
    if servers:
        settings[SERVERS] = servers
    return settings


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return "HEADRACE_" + name.upper().replace(".", "_")


def _override(settings: dict[str, str], values: Mapping[str, str]) -> None:
    """A secret replaces the same secret of a lower layer, also if that is in a file."""
    for name in values:
        secret = name.removesuffix(FILE).removesuffix(COMMAND)
        if is_secret(secret):
            for other in (secret, secret + FILE, secret + COMMAND):
                settings.pop(other, None)
    settings.update(values)


def _profile_settings(profile: str | None, env: Mapping[str, str]) -> Mapping[str, str]:
    named = profile or env.get(PROFILE_VARIABLE)
    if named and _is_path(named):
        return read_properties_file(Path(named))
    profiles = read_profiles(env)
    named = named or profiles.chosen
    if not named:
        return {}
    if named not in profiles.by_name:
        raise not_found(f"profile in {profiles.path} named", named, profiles.by_name)
    return profiles.by_name[named]
