"""Certificates that the operator creates and renews: for its own endpoints, and for the control ports of drivers."""
