"""`consume --exec`: runs a command for each record, and dead-letters the records that fail.

A record is done when its command succeeds, or when the dead-letter topic acknowledges it. Only then
may its offset be committed, so each record is handled at least once.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.records.format_string import Headers, PrintableRecord

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

SHELL: Final = "/bin/sh"
MAX_REASON_BYTES: Final = 1000
FLUSH_S: Final = 0.2
# The header names of KIP-1191, so that tools read these dead letters and those of share groups.
PREFIX: Final = "__dlq.errors."


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """The reason why a command failed for a record."""

    code: int
    reason: str


def run_command(command: str, record: PrintableRecord, group: str | None) -> CommandFailure | None:
    """Runs the command in a shell, with the value on stdin and the rest in the environment."""
    done = subprocess.run(  # noqa: S603  # running the user's command is the purpose
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
    """The environment variables of a record; every shell can read their names."""
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
    """The bytes as text without null bytes, which the environment cannot contain."""
    return data.replace(b"\0", b"").decode("utf-8", "backslashreplace")


def dead_letter_headers(
    record: PrintableRecord, failure: CommandFailure, group: str | None
) -> Headers:
    """The record's own headers, then its origin and the reason of the failure."""
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
    """Writes failed records to the dead-letter topic."""

    def __init__(self, producer: "Producer", topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.count = 0

    def put(self, record: PrintableRecord, failure: CommandFailure, group: str | None) -> None:
        """Returns when the topic has acknowledged the record.

        Raises `CommandFailed` otherwise; the offset must then not be committed.
        """
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
                f"({failure.reason}) and could not be written to dead-letter topic {self._topic}: "
                f"{outcome[0].str()}; its offset is not committed"
            )
        self.count += 1
