"""ESA: ATP, except that packets of a higher priority take over slots."""
