"""What is MariaDB's own in a proof: its snapshots and positions, the SQL of its canonical texts, and how Debezium writes its types."""
