"""Other libraries: spaCy, data frames, tokenizers; each in a module of its own that imports the library when used."""
