"""The name by which a broker knows the helper of a test, to leave its requests alone."""

from typing import Final

CLIENT_ID: Final = "headrace-testing"
