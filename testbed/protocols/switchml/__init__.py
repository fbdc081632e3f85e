"""SwitchML: a pool of slots in two versions, of which switches answer by themselves."""
