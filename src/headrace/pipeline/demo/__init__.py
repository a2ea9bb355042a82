"""A pipeline to look at: orders, some of them broken, on their way into a table."""
