#!/usr/bin/env bash
# The tests, with every check that CI makes. Arguments go to pytest, which then runs once; without any
# it runs twice: what bears company in two processes, then what measures time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./setup.sh
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest "$@"
fi
failed=0
.venv/bin/python -m pytest -m "not alone" --numprocesses 2 || failed=$?
.venv/bin/python -m pytest -m alone || failed=$?
exit "$failed"
