"""`headrace user`: users that log in with SCRAM."""
