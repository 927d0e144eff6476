"""What several drivers share, which never import each other: sessions, signatures, asking, programs."""
