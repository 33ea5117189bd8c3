"""Buckets of rows, by the first twelve bits of the checksum of their key, and groups of buckets, which are handled at once.

So a bucket does not depend on the order of keys, which a collation decides.
"""

BUCKETS, GROUPS = 4096, 256


def find_bucket(key_hash: bytes) -> int:
    """Return the bucket of a key by its checksum."""
    return key_hash[0] << 4 | key_hash[1] >> 4


def find_group(bucket: int) -> int:
    """Return the group that a bucket is in."""
    return bucket // (BUCKETS // GROUPS)
