"""Pipelines, tables, Spark and S3 for tests."""
