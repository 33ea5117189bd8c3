"""What operators mean: plain functions over lists, for tests to compare results with."""
