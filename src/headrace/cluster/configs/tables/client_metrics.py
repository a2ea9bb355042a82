"""Settings of a client metrics subscription."""

TABLE = """\
interval.ms int 300000 min=100 max=3600000
    How often matching clients push their metrics.
match list ""
    Clients that the subscription applies to, as name=pattern; empty matches all.
metrics list ""
    Prefixes of the metrics to push; empty pushes none, * pushes all.
"""
