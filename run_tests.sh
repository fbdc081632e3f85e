#!/usr/bin/env bash
# The tests, with every check that CI makes. Arguments go to pytest, which then runs once. Without
# any it runs twice, first the tests that may run side by side, then those that measure time, and
# shows the coverage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for kept in .venv/.stamp .mypy_cache .ruff_cache .pytest_cache .hypothesis; do
    if [[ -e $kept ]] && other=$(find "$kept" ! -writable -print -quit) && [[ $other ]]; then
        echo "run_tests: $other belongs to $(stat -c %U "$other"), who ran this before;" \
            "run it as that user, or remove .venv and the caches" >&2
        exit 1
    fi
done
./setup.sh
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest "$@"
fi
failed=0
.venv/bin/python -m pytest -m "not alone" --numprocesses 2 --cov || failed=$?
.venv/bin/python -m pytest -m alone --cov --cov-append --cov-report= || failed=$?
.venv/bin/python tests/coverage_table.py
exit "$failed"
