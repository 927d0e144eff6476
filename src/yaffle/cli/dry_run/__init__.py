"""`yaffle watch`: a cloud looked at by the real engine with its hands tied, and what it would have done.

Nothing of deciding is here: servers become rows (`grouping`, `inventory`), the engine judges them under
a policy that only observes (`policy`), and what it decided is told (`messages`, `report_store`,
`report`).
"""
