"""Measurements against peers, both in one run. Results live in benchmarks/results/*.json."""
