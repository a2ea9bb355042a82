"""How a broker belongs to a cluster: registration, peers, forwarding, failure detection."""
