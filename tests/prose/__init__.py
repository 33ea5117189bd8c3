"""The check of the project's prose: Vale with the style in `styles/Kappa`."""
