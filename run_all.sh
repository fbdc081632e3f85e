#!/usr/bin/env bash
# The evaluation: ./run_all.sh [--quick | --reference | EXPERIMENT.yaml ...]
#   --quick      a small evaluation, a few minutes
#   --reference  all experiments of reports/reference, papers' claims, and the pages made from them.
#                Rows that the same code made are kept: those in reports/reference, and those of an
#                interrupted run. For cells in virtual time that other code made, one repeat runs again;
#                if its row comes out the same, the cell's other repeats are kept. Without BMv2, rows on
#                BMv2 are kept as they are. Needs PyTorch (extra train).
#   no argument  the evaluation: in packets on the leaf-spine, then on both fabrics in packets and in Mininet (where BMv2
#                is installed, on it, too)
#   files        these experiments
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bmv2="$(command -v simple_switch || true)"
arguments=() reference=
for argument in "$@"; do
    case "$argument" in
        --quick) arguments+=("$here/experiments/quick.yaml") ;;
        --reference) reference=yes ;;
        -*) arguments+=("$argument") ;;
        *) arguments+=("$(realpath "$argument")") ;;
    esac
done
if [[ $reference && ${#arguments[@]} -gt 0 ]]; then
    echo "run_all.sh: found ${arguments[0]} beside --reference, wanted --reference alone" >&2
    exit 2
fi
"$here/setup.sh"
cd "$here"
if [[ -z $reference ]]; then
    ((${#arguments[@]})) || for name in evaluation emulated{,-fat-tree} ${bmv2:+emulated-bmv2}; do
        arguments+=("$here/experiments/$name.yaml")
    done
    exec .venv/bin/ina-testbed run "${arguments[@]}"
fi
if ! .venv/bin/python -c "import sklearn, torch" 2> /dev/null; then
    echo "run_all.sh: some claims are on accuracy: first .venv/bin/pip install -e '.[train]'" >&2
    exit 1
fi
# A run that Ctrl-C or another signal ends has a code of 128 or more; bash would go on with the next one.
run() {
    local ended=0
    .venv/bin/ina-testbed run "$@" || ended=$?
    ((ended < 128)) || exit "$ended"
    ((ended == 0)) || echo "$name: some cells failed" >&2
}
# The newest run of an experiment of the reference, if there is one.
latest() {
    find "results/reference/$1" -mindepth 1 -maxdepth 1 -type d 2> /dev/null | sort | tail -n 1 || true
}
runs=()
for name in evaluation{,-fat-tree,-large,-large-fat-tree,-100g} \
    factor-{batch,loss,packets,placement,routing,scale,slots,steps,stragglers,tiers} sensitivity \
    emulated{,-fat-tree,-bmv2} evaluation-k8; do
    before="$(latest "$name")"
    if [[ -z $before && -e reports/reference/$name/iterations.csv ]]; then
        mkdir -p "results/reference/$name"
        before="results/reference/$name/kept"
        cp -r "reports/reference/$name" "$before"
    fi
    if [[ $name = emulated-bmv2 && -z $bmv2 ]]; then
        [[ -n $before ]] || continue
    elif [[ -n $before ]]; then
        run --resume "$before" --adopt "experiments/$name.yaml"
    else
        run -o results/reference "experiments/$name.yaml"
    fi
    runs+=("$(latest "$name")")
done
.venv/bin/ina-testbed claims -o results/claims
exec .venv/bin/ina-testbed reference "${runs[@]}" --claims results/claims
