"""Converts blocks to Arrow record batches, and the properties of their records to columns."""
