"""Checkpoints: folders in each kind of store, the fence, and the files of Spark that the runtime reads or writes."""
