"""All reads: for each kind, `observe_*` gathers the world into one frozen value for the decision."""
