"""Kafka outside Spark: options, permissions, limits, offsets, and the consumer group that mirrors progress."""
