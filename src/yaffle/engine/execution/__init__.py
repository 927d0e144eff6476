"""Claims actions and runs them step by step, to what their end means."""
