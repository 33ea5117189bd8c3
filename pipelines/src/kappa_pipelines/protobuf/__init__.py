"""Protobuf messages as rows: schemas compiled from their text, many messages decoded at once into Arrow arrays.

Nothing in here needs Spark's JVM: a schema is compiled in the driver and travels as bytes, and executors decode. Where a module
speaks of the wire or of compatibility, its source is the Protocol Buffers documentation (Encoding; Updating A Message Type).
"""
