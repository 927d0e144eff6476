"""What users ask of clusters, as durable jobs: a parent, its parts, and what the parent does next."""
