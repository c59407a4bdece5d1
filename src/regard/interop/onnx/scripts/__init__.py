"""The `run.py` of each kind of exported model: copied into its folder as it is, so each file stands alone."""
