"""Cluster metadata: the image every broker reads, the controller that changes it, its stores."""
