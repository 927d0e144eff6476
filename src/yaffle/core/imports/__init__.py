"""Importing from a Senlin: every object is judged before anything is written. Pure.

`dump` brings both known shapes into one, `items` reads each object, `plan` says what becomes of it.
"""
