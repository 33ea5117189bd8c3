"""Streams written to topics."""
