"""What a driver reports: listener, progress, metrics and the control server."""
