"""Nova's servers as several drivers read them: the list of all, what its words mean, how one ended."""
