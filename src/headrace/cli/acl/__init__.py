"""`headrace acl`."""
