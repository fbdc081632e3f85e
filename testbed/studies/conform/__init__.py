"""A P4 program against a protocol's rules, on a hostile network, with the reference beside it."""
