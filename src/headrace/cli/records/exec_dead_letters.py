"""`consume --exec`: each record to a command, and what it cannot handle to a dead-letter topic.

A record counts as done when its command has succeeded, or when the dead-letter topic has
acknowledged it. Only then may its offset be committed, so a record is handled at least once.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.cli.exits import CommandFailed
from headrace.cli.records.format_string import Headers, PrintableRecord

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

SHELL: Final = "/bin/sh"
MAX_REASON_BYTES: Final = 1000
FLUSH_S: Final = 0.2
# The names of KIP-1191, so that one reader serves share groups' dead letters and these.
PREFIX: Final = "__dlq.errors."


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """Why a command did not handle a record."""

    code: int
    reason: str


def run_command(command: str, record: PrintableRecord, group: str | None) -> CommandFailure | None:
    """Runs the command in a shell: the value on stdin, the rest in the environment."""
    done = subprocess.run(  # noqa: S603  # running the person's own command is the purpose
        [SHELL, "-c", command],
        input=record.value or b"",
        env={**os.environ, **environment_of(record, group)},
        stderr=subprocess.PIPE,
        check=False,
    )
    said = done.stderr.decode("utf-8", "replace")
    sys.stderr.write(said)
    if done.returncode == 0:
        return None
    said = said.strip()
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return CommandFailure(done.returncode, f"{how}: {said}" if said else how)


def environment_of(record: PrintableRecord, group: str | None) -> dict[str, str]:
    """What the command can ask for; names are safe for every shell."""
    variables = {
        "HEADRACE_TOPIC": record.topic,
        "HEADRACE_PARTITION": str(record.partition),
        "HEADRACE_OFFSET": str(record.offset),
        "HEADRACE_TIMESTAMP": str(record.timestamp_ms),
        "HEADRACE_GROUP": group or "",
        "HEADRACE_VALUE_IS_NULL": "1" if record.value is None else "",
    }
    if record.key is not None:
        variables["HEADRACE_KEY"] = _variable(record.key)
    for name, value in record.headers:
        safe = "".join(each if each.isascii() and each.isalnum() else "_" for each in name)
        variables[f"HEADRACE_HEADER_{safe.upper()}"] = _variable(value or b"")
    return variables


def _variable(data: bytes) -> str:
    """The environment cannot hold a null byte, and text is what shells know."""
    return data.replace(b"\0", b"").decode("utf-8", "backslashreplace")


def dead_letter_headers(
    record: PrintableRecord, failure: CommandFailure, group: str | None
) -> Headers:
    """The record's own headers, then where it came from and why it is here."""
    facts: Mapping[str, str] = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
        "group": group or "",
        "message": failure.reason.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore"),
    }
    own = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    return [*own, *((PREFIX + name, value.encode()) for name, value in facts.items() if value)]


class ExecDeadLetters:
    """Sets records aside in a topic; `put` returns when the topic has them."""

    def __init__(self, producer: "Producer", topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.count = 0

    def put(self, record: PrintableRecord, failure: CommandFailure, group: str | None) -> None:
        """Raises `CommandFailed` if the record could not be kept: it must not be committed."""
        outcome: list[KafkaError | None] = []

        def note(error: "KafkaError | None", message: "Message") -> None:
            outcome.append(error)

        self._producer.produce(
            self._topic,
            key=record.key,
            value=record.value,
            headers=list(dead_letter_headers(record, failure, group)),
            on_delivery=note,
        )
        while not outcome:
            self._producer.flush(FLUSH_S)
        if outcome[0] is not None:
            raise CommandFailed(
                f"{record.topic}-{record.partition} offset {record.offset} failed "
                f"({failure.reason}) and could not be set aside in {self._topic}: "
                f"{outcome[0].str()}; it is not committed"
            )
        self.count += 1
