"""Cluster actions: what users ask of clusters, as a parent action, its children and transitions."""
