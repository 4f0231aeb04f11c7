"""Content filters over tables of Spark, with the result that the broker gives."""
