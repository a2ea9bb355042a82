"""The cluster as the console sees it: clients, snapshots that are refreshed in the background."""
