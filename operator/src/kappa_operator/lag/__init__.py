"""Consumer lag: what is read from Kafka, how far behind a group is in records and in time, and what that means."""
