"""Decodes record batches into Arrow columns, without a Python object for each record.

This package is for pipelines only. It needs numpy, numba and pyarrow (`pip install
headrace[pipeline]`), which the broker does not use.
"""
