"""Chunks between ranks over kernel TCP."""
