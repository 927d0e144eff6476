"""The steps of one node action: look, fence, delete, create, act, verify, and what each goes by."""
