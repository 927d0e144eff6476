"""The HTTP server: sockets, connections, framing, limits, lanes, and how an answer is written."""
