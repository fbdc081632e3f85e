"""ATP: jobs share slots. A packet whose slot is taken continues to the root, which is a host."""
