"""`headrace cluster`: local clusters, status, reassignment."""
