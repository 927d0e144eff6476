"""How servers and their hosts are, and who brought them there."""
