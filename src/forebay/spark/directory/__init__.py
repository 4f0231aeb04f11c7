"""Reads a broker's data directory without the broker."""
