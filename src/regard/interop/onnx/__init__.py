"""ONNX files: a model as graphs that ONNX Runtime runs, with a script beside them that needs nothing of ours.

`graphs.py` cuts a model into modules of plain tensors, `write.py` traces them, `check.py` runs both sides, and `scripts/` has the
`run.py` of each kind of model.
"""
