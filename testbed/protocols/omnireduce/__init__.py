"""OmniReduce: SwitchML's pool, in which all go on with the next block that is not zero."""
