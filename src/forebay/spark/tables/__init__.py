"""Tables that queues are tiered into: Parquet folders, Delta and Iceberg, behind one small interface."""
