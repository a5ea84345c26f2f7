"""Applications, one folder each: estimator, features, commands and report section of a task."""
