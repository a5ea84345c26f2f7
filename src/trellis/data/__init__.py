"""Text in, ragged arrays out: readers, writers, vocabularies, batches."""
