"""Kafka Connect of a KafkaCluster: its workers, and how the operator reaches it."""
