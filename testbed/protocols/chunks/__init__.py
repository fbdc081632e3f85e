"""Chunks between ranks, over the kernel's TCP."""
