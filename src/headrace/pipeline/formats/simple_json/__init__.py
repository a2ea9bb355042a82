"""Reads simple JSON records directly into Arrow columns, without Spark.

A record is simple if it has only one interpretation: an object that fits the schema, with exact
numbers, times in ISO format and unique keys. For such a record, the row is the same as that of
`json_checks`. These rules handle every other record, good or bad: this package never decides that a
record is bad.
"""
