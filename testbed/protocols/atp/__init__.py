"""ATP: slots are shared, a packet that finds its slot taken goes on to the root, a host."""
