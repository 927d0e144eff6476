"""Client of a server: transport, our own API, the clustering API, progress."""
