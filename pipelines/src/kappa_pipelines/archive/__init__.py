"""The archive of a topic: its records as Parquet files on a StateStore, read before the log as one stream."""
