"""A driver: checks, standby, preparation, supervision of its queries, stop."""
