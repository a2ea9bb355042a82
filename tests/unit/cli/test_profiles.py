"""Which cluster, and as whom."""

from pathlib import Path

import pytest

from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.profiles import client_settings, config_path

FILE = """
profile = "local"

[profiles.local]
bootstrap.servers = "local:9092"

[profiles.production]
bootstrap.servers = "prod:9093"
security.protocol = "SASL_SSL"
sasl.mechanism = "PLAIN"
sasl.username = "me"
enable.ssl.certificate.verification = false
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    return {"HEADRACE_CONFIG": str(path)}


def settings(
    environment: dict[str, str],
    *,
    servers: str | None = None,
    profile: str | None = None,
    overrides: dict[str, str] | None = None,
) -> dict[str, str]:
    return client_settings(
        servers=servers, profile=profile, overrides=overrides or {}, environment=environment
    )


def test_without_anything_it_is_the_broker_on_this_machine(tmp_path: Path) -> None:
    found = settings({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found == {"bootstrap.servers": "127.0.0.1:9092"}


def test_the_files_own_choice_counts_where_none_is_named(environment: dict[str, str]) -> None:
    assert settings(environment)["bootstrap.servers"] == "local:9092"


def test_a_named_profile_has_all_its_settings_as_text(environment: dict[str, str]) -> None:
    assert settings(environment, profile="production") == {
        "bootstrap.servers": "prod:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "enable.ssl.certificate.verification": "false",
    }


def test_the_command_line_wins_over_the_environment_and_that_over_the_profile(
    environment: dict[str, str],
) -> None:
    environment |= {
        "HEADRACE_PROFILE": "production",
        "HEADRACE_BOOTSTRAP": "env:1",
        "HEADRACE_SASL_USERNAME": "env-user",
        "HEADRACE_SASL_PASSWORD": "secret",
    }
    found = settings(environment, overrides={"sasl.username": "x-user"})
    assert found["bootstrap.servers"] == "env:1"
    assert found["sasl.username"] == "x-user"
    assert found["sasl.password"] == "secret"
    assert settings(environment, servers="line:2")["bootstrap.servers"] == "line:2"


def test_a_profile_that_is_not_there_is_named_with_one_like_it(environment: dict[str, str]) -> None:
    with pytest.raises(CommandFailed, match="Did you mean 'production'") as caught:
        settings(environment, profile="prodution")
    assert caught.value.code is ExitCode.NOT_FOUND


@pytest.mark.parametrize("content", ["not toml", "profiles = 3", "profile = 3", "[profiles]\na=1"])
def test_a_file_that_cannot_be_used_says_so(content: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(content)
    with pytest.raises(CommandFailed, match=r"broken\.toml"):
        settings({"HEADRACE_CONFIG": str(path)})


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="does not exist"):
        settings({"HEADRACE_CONFIG": str(tmp_path / "none.toml")})


def test_the_file_is_in_the_users_configuration_folder() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/headrace/config.toml")
    relative = config_path({"XDG_CONFIG_HOME": "not/absolute"})
    assert relative == Path.home() / ".config" / "headrace" / "config.toml"


def test_a_properties_file_is_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=own:1\nsasl.username = me\n")
    found = settings({"XDG_CONFIG_HOME": str(tmp_path)}, profile=str(path))
    assert found == {"bootstrap.servers": "own:1", "sasl.username": "me"}
    with pytest.raises(CommandFailed, match="none"):
        settings({"XDG_CONFIG_HOME": str(tmp_path)}, profile="./none.properties")


def test_a_secret_of_a_higher_layer_replaces_the_file_of_a_lower_one(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("sasl.password.file=/run/secret\n")
    found = settings({"HEADRACE_SASL_PASSWORD": "p"}, profile=str(path))
    assert found["sasl.password"] == "p"
    assert "sasl.password.file" not in found
    command = {"HEADRACE_SASL_PASSWORD_COMMAND": "pass show kafka"}
    assert settings(command, profile=str(path))["sasl.password.command"] == "pass show kafka"
