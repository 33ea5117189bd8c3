"""The archive of a Topic: a pod copies new records to a StateStore at intervals, and retention is held while it is behind."""
