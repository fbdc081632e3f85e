"""SwitchML: a pool of slots in two versions, from which switches answer on their own."""
