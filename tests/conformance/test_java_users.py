"""ConfigCommand changes users, and Java's clients log in with every mechanism."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace.testing
from support.clients.java import ToolFailed, run
from support.security.sasl_wire import PREFIX, sasl_settings
from support.security.signed_tokens import claims, issuer_settings, signed

CONFIGS = "kafka.admin.ConfigCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.testing.Broker]:
    settings = {
        **sasl_settings("SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        **issuer_settings(tmp_path_factory.mktemp("issuer")),
        f"{PREFIX}plain.connections.max.reauth.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
    }
    with headrace.testing.Broker(settings=settings) as running:
        yield running


def login(folder: Path, mechanism: str, user: str = "", password: str = "") -> Path:
    """A file with the client settings of Java."""
    if mechanism == "OAUTHBEARER":
        token = folder / "token"
        token.write_text(signed(claims("dora")))
        own = [
            f"sasl.jaas.config={MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}",
            f"sasl.oauthbearer.jwt.retriever.class={MODULES}.oauthbearer.DefaultJwtRetriever",
            f"sasl.login.callback.handler.class={MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
        ]
    else:
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        options = f'username="{user}" password="{password}"'
        own = [f"sasl.jaas.config={MODULES}.{kind}LoginModule required {options};"]
    path = folder / f"{mechanism}-{user}.properties"
    lines = ["security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}", *own]
    path.write_text("\n".join(lines))
    return path


def users(broker: headrace.testing.Broker, folder: Path, *words: str) -> str:
    """The output of kafka-configs.sh for users, run by the administrator."""
    return run(
        *(CONFIGS, "--bootstrap-server", broker.bootstrap_servers),
        *("--command-config", str(login(folder, "PLAIN", "admin", "admin-secret"))),
        *("--entity-type", "users", *words),
    )


def test_config_command_sets_describes_and_deletes_credentials(
    broker: headrace.testing.Broker, tmp_path: Path
) -> None:
    added = "SCRAM-SHA-256=[iterations=8192,password=bob-secret]"
    told = users(broker, tmp_path, "--entity-name", "bob", "--alter", "--add-config", added)
    assert "Completed updating config for user bob" in told
    described = users(broker, tmp_path, "--entity-name", "bob", "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "bob" in users(broker, tmp_path, "--describe")
    for words in (["SCRAM-SHA-256=[iterations=4095,password=x]"], ["SCRAM-SHA-256=[password=]"]):
        with pytest.raises(ToolFailed):
            users(broker, tmp_path, "--entity-name", "bob", "--alter", "--add-config", *words)
    users(broker, tmp_path, "--entity-name", "bob", "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in users(broker, tmp_path, "--describe")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_java_writes_and_reads(
    broker: headrace.testing.Broker, tmp_path: Path, mechanism: str
) -> None:
    name, password = ("alice", "alice-secret")
    if mechanism.startswith("SCRAM"):
        name, password = "carol", "carol-secret"
        added = f"{mechanism}=[password={password}]"
        users(broker, tmp_path, "--entity-name", name, "--alter", "--add-config", added)
    settings = str(login(tmp_path, mechanism, name, password))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={(tmp_path / 'token').as_uri()}"
    topic = f"java-{mechanism.lower()}"
    shared = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic)
    run(allowed, PRODUCER, *shared, "--command-config", settings, stdin="one\ntwo\n")
    read = run(
        *(allowed, CONSUMER, *shared, "--command-config", settings, "--from-beginning"),
        *("--max-messages", "2", "--timeout-ms", "60000"),
    )
    assert sorted(read.split()) == ["one", "two"]


def test_java_reports_wrong_credentials(broker: headrace.testing.Broker, tmp_path: Path) -> None:
    settings = str(login(tmp_path, "SCRAM-SHA-256", "nobody", "x"))
    with pytest.raises(ToolFailed, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
        run(
            *(CONFIGS, "--bootstrap-server", broker.bootstrap_servers),
            *("--command-config", settings, "--entity-type", "users", "--describe"),
        )
