"""Operations on a stack, one file each, and what they share."""
