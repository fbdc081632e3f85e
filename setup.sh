#!/usr/bin/env bash
# Installs what the testbed needs and this machine lacks, and says what it installs. Idempotent.
# Called by run_all.sh and run_tests.sh; can also be run by itself.
set -euo pipefail
if (($#)); then
    echo "usage: ./setup.sh
Installs what is missing: Debian packages (as root), and a virtual environment in .venv.
Says what it installs, and does nothing if nothing is missing."
    [[ $1 == -h || $1 == --help ]] && exit 0
    echo "setup: found $1, wanted no argument" >&2
    exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")"

# Mininet belongs to the system's Python, so the virtual environment is made from that one.
python=/usr/bin/python3

if ! dpkg-query -W -f '${Status}' python3-venv 2>/dev/null | grep -q 'ok installed'; then
    if [[ $EUID -ne 0 ]]; then
        echo "setup: as root, run: apt-get install python3-venv" >&2
        exit 1
    fi
    echo "setup: installing python3-venv (a Debian package)"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
fi

# The programs in .venv/bin begin with the path of its Python, so another place needs a new one.
place="$("$python" --version) $PWD"
stamp="$(sha256sum pyproject.toml | cut -d' ' -f1) $place"
had="$(cat .venv/.stamp 2>/dev/null || true)"
if [[ $had != "$stamp" ]]; then
    echo "setup: installing Python packages into .venv"
    # An interrupted set-up leaves a Python without pip.
    if ! .venv/bin/python -m pip --version &>/dev/null || [[ $had && ${had#* } != "$place" ]]; then
        "$python" -m venv --clear --system-site-packages .venv
    fi
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-compile -e '.[dev]'
    echo "$stamp" > .venv/.stamp
fi

# The rest of the Debian packages: `ina-testbed doctor` knows which. Optional ones may stay missing.
install=()
[[ $EUID -ne 0 ]] || install=(--install)
.venv/bin/ina-testbed setup --packages-only "${install[@]}" | sed -n '/^installing/p; /^missing/,+1p; /^as root/p'
