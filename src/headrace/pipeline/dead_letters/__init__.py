"""Dead letters, the records that a pipeline cannot use: writing, listing and replaying them."""
