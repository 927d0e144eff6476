"""Sessions, signatures and settings that several drivers share; drivers never import each other."""
