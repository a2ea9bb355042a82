"""JSON records of a simple form straight into Arrow columns, without Spark.

A record is simple if there can be no two opinions about it: an object that fits the schema, with
numbers that are exact, times in ISO's form, no key twice. Such a record becomes the row that
`json_rules` would have made of it. Every other record is left to those rules, good or bad: this
package never calls a record bad.
"""
