"""Blocks as Arrow record batches, and the properties of their records as columns."""
