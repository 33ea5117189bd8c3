"""What the runtime keeps and reads beside Spark's own checkpoint files."""
