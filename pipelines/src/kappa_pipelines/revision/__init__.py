"""The input of a driver: the revision, its environment, its modules and its Spark settings."""
