"""Metrics: families, histograms and their text format (pure)."""
