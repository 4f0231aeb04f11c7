"""Decodes Avro and Protobuf bodies into columns."""
