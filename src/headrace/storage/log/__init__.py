"""One partition's log: appending, reading, retention, truncation."""
