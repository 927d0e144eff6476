"""One recovery's way: the ladder of steps, reasons to leave alone, host quarantine. Pure."""
