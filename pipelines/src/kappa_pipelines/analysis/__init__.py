"""What Spark's analysed plans show: relations, state, fingerprints of state, and what a change means for it."""
