"""Client quotas: limits, entities and measured rates. Pure."""
