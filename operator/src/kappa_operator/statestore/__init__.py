"""The kind StateStore: a PVC, a bucket or HDFS, verified, measured and collected."""
