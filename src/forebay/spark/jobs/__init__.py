"""Jobs of Spark with queues beyond reading and writing them; `forebay spark` is their command line."""
