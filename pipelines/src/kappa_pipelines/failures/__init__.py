"""Why something failed: exceptions of Spark and Kafka as data, a reason, and whether a retry can help."""
