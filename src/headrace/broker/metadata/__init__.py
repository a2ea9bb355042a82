"""The broker's view of the cluster metadata, on one node and in a cluster."""
