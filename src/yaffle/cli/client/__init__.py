"""How commands speak to a server: transport, our own API, the clustering API, progress."""
