"""Proves that a table and the topic that Debezium derives from it are equal, row for row, at one position of the database's log.

The topic is read first, then the table in one transaction, then the rest of the topic. Both sides are compared by checksums of buckets, a
bucket being a part of the hashes of keys. Only keys of buckets that differ are read, and only they are compared again, each at a later
position, until it is decided. `run` does this for `database` and `topic`; the other modules are pure.
"""
