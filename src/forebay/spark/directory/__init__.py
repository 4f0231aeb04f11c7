"""The data directory of a broker, read without its help."""
