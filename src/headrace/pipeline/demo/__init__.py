"""A demo pipeline that writes orders, some of them invalid, into a table."""
