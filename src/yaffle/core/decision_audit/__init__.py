"""The record of a decision: its schema, how it is captured, restored and replayed. Pure."""
