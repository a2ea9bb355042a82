"""Spark sessions, and how Spark is started."""
