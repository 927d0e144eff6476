"""Operations on a server, one file each, and what is asked before them."""
