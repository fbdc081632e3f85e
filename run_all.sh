#!/usr/bin/env bash
# The evaluation: ./run_all.sh [--quick | --reference | EXPERIMENT.yaml ...]
#   --quick      a small evaluation, a few minutes
#   --reference  all experiments of reports/reference, papers' claims, and the pages made from them;
#                rows that the same code made are kept, those in reports/reference and those of an
#                interrupted run, and in virtual time those of other code of which one of each cell comes
#                out the same; without BMv2, those on it stay as they are. Needs PyTorch (extra train)
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
if [[ -z $reference ]]; then
    ((${#arguments[@]})) || for name in evaluation emulated{,-fat-tree} ${bmv2:+emulated-bmv2}; do
        arguments+=("$here/experiments/$name.yaml")
    done
    "$here/setup.sh"
    cd "$here"
    exec .venv/bin/ina-testbed run "${arguments[@]}"
fi
"$here/setup.sh"
cd "$here"
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
runs=()
for name in evaluation{,-fat-tree,-large,-large-fat-tree,-100g} \
    factor-{batch,loss,packets,routing,scale,slots,steps,stragglers,tiers} sensitivity emulated{,-fat-tree,-bmv2} \
    evaluation-k8; do
    latest="$(find "results/reference/$name" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | sort | tail -n 1 || true)"
    if [[ -z $latest && -e reports/reference/$name/iterations.csv ]]; then
        mkdir -p "results/reference/$name"
        latest="results/reference/$name/kept"
        cp -r "reports/reference/$name" "$latest"
    fi
    if [[ $name = emulated-bmv2 && -z $bmv2 ]]; then
        [[ -n $latest ]] || continue
    elif [[ -n $latest ]]; then
        run --resume "$latest" --adopt "experiments/$name.yaml"
    else
        run -o results/reference "experiments/$name.yaml"
    fi
    runs+=("$(find "results/reference/$name" -mindepth 1 -maxdepth 1 -type d | sort | tail -n 1 || true)")
done
.venv/bin/ina-testbed claims -o results/claims
exec .venv/bin/ina-testbed reference "${runs[@]}" --claims results/claims
