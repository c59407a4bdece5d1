"""A server that batches every family: the engine that owns a model, and the HTTP interface before it."""
