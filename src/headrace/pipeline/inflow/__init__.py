"""The way in: files and Delta tables, streamed to a topic, each row once."""
