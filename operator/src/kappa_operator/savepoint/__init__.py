"""The kind Savepoint: taken, verified, exported, imported and deleted."""
