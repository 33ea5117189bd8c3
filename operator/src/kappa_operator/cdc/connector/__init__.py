"""The configuration of Debezium's connectors, from the spec of a `CDCSource`. Nothing here does I/O."""
