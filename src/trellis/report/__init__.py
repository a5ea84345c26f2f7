"""Tables, plots, a self-contained HTML page."""
