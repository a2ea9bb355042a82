"""Settings of one subscription to clients' metrics."""

TABLE = """\
interval.ms int 300000 min=100 max=3600000
    How often matching clients push their metrics.
match list ""
    Which clients the subscription is for, as name=pattern; empty matches all.
metrics list ""
    Prefixes of the metrics to push; empty pushes none, * all.
"""
