"""What a driver is given: the revision, its environment, its modules and its Spark settings."""
