"""Spark jobs over queues, beyond reading and writing them; `forebay spark` is their command line."""
