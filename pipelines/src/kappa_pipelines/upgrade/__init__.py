"""What a new revision means for the state of the one that runs: read from its plan, and tried on a copy."""
