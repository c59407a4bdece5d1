"""Who may look at whom, beyond the plain cases: the algebra of patterns, those of the papers, and their maps of blocks."""
