"""Analysis of Spark's plans: relations, and state with its bounds."""
