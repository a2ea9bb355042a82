"""A running console and its client."""
