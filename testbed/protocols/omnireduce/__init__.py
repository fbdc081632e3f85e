"""OmniReduce: SwitchML's pool. All ranks continue with the next block that is not zero at some
rank."""
