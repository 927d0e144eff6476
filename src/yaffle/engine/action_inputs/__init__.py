"""What actions are built from: driver targets, frozen policies, template values, requests."""
