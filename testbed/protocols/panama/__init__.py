"""PANAMA: slots as in SwitchML; hosts react to marked sums like DCTCP."""
