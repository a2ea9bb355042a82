"""Headrace beside Apache Kafka on the same machine; see docs/benchmarks.md and `script/bench`."""
