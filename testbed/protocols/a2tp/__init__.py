"""A2TP: ATP with a second window, for switches' memory."""
