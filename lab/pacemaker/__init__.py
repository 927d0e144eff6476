"""A real Pacemaker cluster with remote hosts on this machine, in Linux namespaces, without systemd."""
