"""The kind Topic: created, altered, adopted and deleted in Kafka, in batches."""
