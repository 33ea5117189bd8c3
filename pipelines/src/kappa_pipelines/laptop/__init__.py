"""Pipelines on a laptop: run over files, tested, explained; no cluster and no Kafka.

Between the files and the rows stands what a driver runs, compiled by the same code.
"""
