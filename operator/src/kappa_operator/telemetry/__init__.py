"""What the operator reports about itself: metrics, health, logs."""
