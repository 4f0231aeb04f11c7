"""Tables that queues are tiered into: Parquet folders, Delta and Iceberg, with one small interface."""
