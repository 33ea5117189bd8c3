"""Topics read as streams."""
