"""Sparse Flare: pairs of index and value, in a hash table in SwitchML's slots."""
