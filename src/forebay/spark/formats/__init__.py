"""Bodies that are not JSON, as columns: Avro and Protobuf."""
