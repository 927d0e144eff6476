"""The requests to Nova and Cinder, and what they answer."""
