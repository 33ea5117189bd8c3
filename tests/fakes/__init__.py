"""In-memory twins of what the operator talks to, and a fuse that ends it at any write."""
