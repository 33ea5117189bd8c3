"""Pure builders: from a spec and what it refers to, the Kubernetes objects to apply."""
