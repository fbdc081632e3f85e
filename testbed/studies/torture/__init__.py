"""Random cases from seeds: small jobs on fabrics that fail, each run in virtual time and judged."""
