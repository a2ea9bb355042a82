"""Where metadata lives: one module for each kind of store."""
