"""The E-step: dual solvers, KKT residuals, infeasibility diagnosis."""
