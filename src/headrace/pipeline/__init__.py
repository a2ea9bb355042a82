"""Pipelines on Spark: topics into tables, and files into topics, exactly once.

Works against any Kafka: it knows the protocol and the client, nothing of the broker. Needs
`pip install headrace[pipeline]`.
"""
