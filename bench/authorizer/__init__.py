"""What the authorizer costs: one decision, and a whole broker with 10,000 ACLs."""
