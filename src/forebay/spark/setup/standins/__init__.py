"""Pure Python stand-ins for compiled packages, for executors that lack these: see archive.py."""
