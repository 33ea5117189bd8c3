"""Changes of a Pipeline: dry run, savepoint, handover, health gate, rollback, restore."""
