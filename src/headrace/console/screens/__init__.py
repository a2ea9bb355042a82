"""One module for each screen; `registry.py` lists them."""
