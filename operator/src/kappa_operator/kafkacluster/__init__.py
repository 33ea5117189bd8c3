"""The kind KafkaCluster: a connection that is checked."""
