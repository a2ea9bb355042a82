"""Pipelines on Spark: Headrace's source and runner beside Spark's own Kafka source."""
