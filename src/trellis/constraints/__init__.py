"""What is known: expressions over counts of parts, compiled to sparse rows."""
