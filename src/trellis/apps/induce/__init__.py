"""Part-of-speech induction."""
