"""Files of Spark's checkpoint that the runtime reads or rewrites."""
