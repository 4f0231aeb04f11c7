"""Queues as rows: a read is planned on the driver, and each task reads a range of offsets, of a batch or a stream."""
