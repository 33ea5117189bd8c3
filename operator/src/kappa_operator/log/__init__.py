"""The proof that a log is whole, and what endangers it while it is read again."""
