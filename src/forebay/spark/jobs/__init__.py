"""What is done with queues by Spark beyond reading and writing them; `forebay spark` is its command line."""
