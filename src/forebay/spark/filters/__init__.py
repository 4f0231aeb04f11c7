"""Evaluates content filters over Spark tables, with the same result as the broker."""
