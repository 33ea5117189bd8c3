"""Protobuf messages as rows: schemas compiled from their text, many messages decoded at once into Arrow arrays.

These modules do not need Spark's JVM: the driver compiles a schema, which travels as bytes, and executors decode. The source for wire
types and compatibility is the Protocol Buffers documentation (Encoding; Updating A Message Type).

Libraries that convert messages to Arrow (protarrow) have other types: no DECIMAL for uint64, no JSON for Struct, no error for
times out of range, no names for unknown enum numbers.
"""
