"""Where news goes: one file per kind of receiver."""
