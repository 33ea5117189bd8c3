"""What the operator tells people who ask it: lag, throughput and the progress of pipelines, for `kappa lag` and `kappa top`."""
