"""Runs flows: batch after batch, each planned from what the sink says it holds."""
