"""Status of servers and their hosts, and who brought them there."""
