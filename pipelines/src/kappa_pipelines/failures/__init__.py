"""Failures: exceptions of Spark and Kafka as data, their reason, and whether a retry can help."""
