"""What is written beside the queries: dead letters and late records."""
