"""What every kind shares: watches fill the cache and the queue, the controller gathers, decides and acts, one key at a time."""
