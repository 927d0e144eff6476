"""Action inputs: driver targets, frozen policies, template values, requests."""
