"""A decoder's step in few, large kernels of its own (Triton), for GPUs. `step` decides and plans; the others compute."""
