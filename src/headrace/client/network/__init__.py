"""Connections: frames, versions, the pool, retry delays."""
