"""The shell: reads, asks the core, writes the intent, acts, writes the result. Thin by design."""
