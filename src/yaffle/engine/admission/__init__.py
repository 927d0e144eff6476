"""One planning transaction: the cluster's view, the plan, and the rows that it becomes."""
