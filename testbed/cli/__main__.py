"""``python -m testbed.cli``: the same as ``ina-testbed``."""

from testbed.cli import main

main(prog_name="ina-testbed")
