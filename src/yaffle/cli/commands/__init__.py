"""The nouns of the command line: one file each."""
