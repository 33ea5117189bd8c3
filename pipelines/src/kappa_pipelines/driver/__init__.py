"""The life of a driver: check, wait on standby, start, supervise, stop."""
