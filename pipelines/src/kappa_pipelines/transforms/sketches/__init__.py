"""SQL functions that summarize many values in little space: Bloom filters and frequency sketches that are built, merged and queried.

Each call is expanded to Spark's own functions before Spark parses the view, so the functions work wherever aggregates do, also over
streams, and run no Python for a record. Spark 4.2 has `count_min_sketch`, but no function that merges or queries it, and no public
Bloom filter.
"""
