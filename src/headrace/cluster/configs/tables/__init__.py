"""The tables themselves; `configs.table` says how to read one."""
