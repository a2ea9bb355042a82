"""The client id of the test helper: injected faults do not apply to its requests."""

from typing import Final

CLIENT_ID: Final = "headrace-testing"
