"""A toy: whoever asks a switch again for a sum lets everybody have it once more."""
