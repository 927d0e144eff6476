"""What is taken over from a Senlin, judged before anything is written: pure, and read in one place.

`dump` brings both known shapes into one, `items` reads each object, `plan` says what becomes of it.
"""
