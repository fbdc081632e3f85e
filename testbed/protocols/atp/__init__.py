"""ATP: jobs share slots; a packet whose slot is taken goes on to the root, a host."""
