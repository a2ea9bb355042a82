"""ACLs and the authorizer's decisions. Pure."""
