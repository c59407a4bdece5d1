"""How good outputs are, in figures that others can compare with theirs."""
