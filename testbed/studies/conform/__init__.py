"""Tests a P4 program against a protocol's rules, on a hostile network, in comparison with the
reference."""
