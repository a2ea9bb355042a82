"""Settings that a visitor types, one `name=value` on each line. Pure."""

from headrace.console.web.errors import PageError


def settings_of(text: str) -> dict[str, str]:
    """The settings; raises `PageError` for a line that is none."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise PageError(
                400,
                "Not a setting",
                f"{stripped[:80]!r} is not NAME=VALUE, one on each line. Nothing was changed.",
            )
        found[name.strip()] = value.strip()
    return found
