"""A toy: a switch that is asked again for a sum sends it again to all members."""
