"""What a change of a Pipeline means: shared by `kappa plan` and the admission webhook."""
