"""What the SQL of a tenant may do: compute rows from the pipeline's own sources and views, and nothing else (ADR 42)."""
