"""NetReduce: switches sum messages of the hosts' own reliable connections."""
