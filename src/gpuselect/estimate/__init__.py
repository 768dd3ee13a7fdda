"""The analytic performance model: pure functions on numbers or 1-D NumPy arrays.

Sizes in bytes, times in seconds, rates in flop/s and byte/s, powers in W.
"""
