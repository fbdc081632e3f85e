#!/usr/bin/env bash
# Runs all checks of CI and the tests: first those that may run side by side, then those that
# measure time. The former wait a lot, so there is one process more than a small machine has cores,
# and mypy runs beside them.
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
found=$(mktemp)
.venv/bin/mypy >"$found" 2>&1 & types=$!
trap 'kill "$types" 2>/dev/null || true; rm -f "$found"' EXIT
coverage=()
if [[ ${1-} == --coverage ]]; then
    coverage=(--cov --cov-report=)
    shift
fi
failed=0
typed() {
    wait "$types" || failed=$?
    trap 'rm -f "$found"' EXIT
    cat "$found"
}
if (($#)); then
    .venv/bin/python -m pytest "${coverage[@]}" "$@" || failed=$?
    typed
else
    .venv/bin/python -m pytest -m "not alone" --numprocesses 3 --dist worksteal "${coverage[@]}" || failed=$?
    typed
    # Only these files: to collect all tests again takes as long as some of them.
    mapfile -t alone < <(grep -rlw --include='test_*.py' 'mark\.alone' tests)
    .venv/bin/python -m pytest -m alone "${alone[@]}" || failed=$?
fi
((${#coverage[@]})) && .venv/bin/python tests/coverage_table.py
exit "$failed"
