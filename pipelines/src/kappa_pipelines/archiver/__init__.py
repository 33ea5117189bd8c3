"""The program that archives a topic: one run in a pod of its own."""
