"""One batch: planning, the Spark job, transforms, the checkpoint."""
