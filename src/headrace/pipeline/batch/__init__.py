"""One batch: the plan, the Spark job, transforms, the checkpoint directory."""
