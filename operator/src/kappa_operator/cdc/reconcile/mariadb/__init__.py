"""What MariaDB and MySQL have of their own in a proof: snapshots and positions, the SQL of canonical texts, and how Debezium writes types."""
