"""Client quotas in a broker: charging requests, throttling connections."""
