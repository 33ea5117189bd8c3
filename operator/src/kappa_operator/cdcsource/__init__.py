"""The kind CDCSource: a database whose changes a connector of Kafka Connect writes to topics."""
