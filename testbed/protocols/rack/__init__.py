"""Rack: a rack's sum goes to a rank as one stream; a rank's values are copied to a whole rack."""
