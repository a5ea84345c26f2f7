"""Field extraction from rules, a few labelled texts and many unlabelled ones."""
