#!/usr/bin/env bash
# The evaluation: ./run_all.sh [--quick | EXPERIMENT.yaml ...]
#   --quick      a small evaluation, a few minutes
#   no argument  the full evaluation
#   files        these experiments
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
arguments=()
for argument in "$@"; do
    case "$argument" in
        --quick) arguments+=("$here/experiments/quick.yaml") ;;
        -*) arguments+=("$argument") ;;
        *) arguments+=("$(realpath "$argument")") ;;
    esac
done
((${#arguments[@]})) || arguments=("$here"/experiments/{evaluation{,-bert}{,-fat-tree},emulated}.yaml)
"$here/setup.sh"
cd "$here"
exec .venv/bin/ina-testbed run "${arguments[@]}"
