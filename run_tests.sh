#!/usr/bin/env bash
# Runs all checks of CI and the tests: first those that may run side by side, then those that
# measure time. The former wait a lot, so there is one process more than a small machine has cores.
# --coverage also shows the coverage of the first group, which slows it down.
# Other arguments go to pytest, which then runs once.
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
# Side by side, and each with a cache of its own: options that differ make a cache useless.
.venv/bin/mypy & package=$!
.venv/bin/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests
wait "$package"
coverage=()
if [[ ${1-} == --coverage ]]; then
    coverage=(--cov --cov-report=)
    shift
fi
failed=0
if (($#)); then
    .venv/bin/python -m pytest "${coverage[@]}" "$@" || failed=$?
else
    .venv/bin/python -m pytest -m "not alone" --numprocesses 3 --dist worksteal "${coverage[@]}" || failed=$?
    .venv/bin/python -m pytest -m alone || failed=$?
fi
((${#coverage[@]})) && .venv/bin/python tests/coverage_table.py
exit "$failed"
