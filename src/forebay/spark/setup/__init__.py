"""A session that suits queues: its settings, its workers' Python, and how many tasks it runs at once."""
