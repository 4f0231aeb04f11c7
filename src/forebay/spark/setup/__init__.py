"""Sets up a Spark session for queues: its settings, its workers' Python, and the number of tasks it runs at once."""
