"""ESA: ATP with slots that packets of a higher priority take over."""
