"""Benchmarks: ratios of CPU times measured in one process, interleaved, the best of several."""
