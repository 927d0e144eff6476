"""`python -m tests.openstack.bad_days`."""

from tests.openstack.bad_days.play import main

main()
