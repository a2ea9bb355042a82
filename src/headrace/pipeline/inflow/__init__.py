"""Streams files and Delta tables into a topic, each row exactly once."""
