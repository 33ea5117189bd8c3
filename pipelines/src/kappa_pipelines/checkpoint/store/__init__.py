"""Folders of a checkpoint: mounted volumes, buckets and HDFS."""
