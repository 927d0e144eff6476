"""The lifecycle of incidents: one failure's story, and the parent incident of a lost host."""
