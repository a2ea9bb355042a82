"""Clients written in Go and JavaScript, each a small program that prints "ok"."""

from pathlib import Path

import pytest

from support.clients.programs import BUILD_TIMEOUT_S, RUN_TIMEOUT_S, run_program

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)


@pytest.mark.parametrize("client", ["franz_go", "kafkajs"])
def test_a_client_of_another_language(
    request: pytest.FixtureRequest, client: str, bootstrap: str, name: str, tmp_path: Path
) -> None:
    command: list[str] = request.getfixturevalue(client)
    assert run_program([*command, bootstrap, name], tmp_path).strip().endswith("ok")
