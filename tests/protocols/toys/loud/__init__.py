"""A toy: if a switch is asked again for a sum, it sends the sum again to all members."""
