"""The report of the operator: lag, throughput and the progress of pipelines, for `kappa lag` and `kappa top`."""
