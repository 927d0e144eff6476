"""Recovery of a node: the ladder of steps, reasons to leave alone, host quarantine. Pure."""
