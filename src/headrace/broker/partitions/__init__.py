"""The partitions of this broker: the table, replica roles, log configs, flushes."""
