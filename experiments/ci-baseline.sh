#!/usr/bin/env bash
# Writes experiments/ci-baseline.json anew, as root and on a quiet machine: rows that are not valid
# are run once more, and are left out if they still are not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
.venv/bin/ina-testbed run experiments/ci.yaml -o "$results"
.venv/bin/ina-testbed run --resume "$results"/ci/* --retry invalid
.venv/bin/ina-testbed baseline "$results" -o experiments/ci-baseline.json
