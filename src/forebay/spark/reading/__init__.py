"""Reads queues as rows. A read is planned on the driver; each task reads a range of offsets of a batch or a stream."""
