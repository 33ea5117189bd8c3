"""Pipelines on a laptop: run over files, tested, explained; no cluster and no Kafka.

The pipeline between files and rows is compiled by the code of a driver.
"""
