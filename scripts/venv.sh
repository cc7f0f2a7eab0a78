#!/bin/sh
# Make or refresh a virtual environment:  sh scripts/venv.sh FOLDER LOCK [PYTHON]
#
# FOLDER/stamp says what the environment was made from and is written last: nothing to do costs
# milliseconds, and an interrupted installation is taken up again. The Makefile calls this before
# every target that needs the book's packages. Needs no root.
set -eu

venv=$1
lock=$2
python=${3-}

refuse() {
    printf '%s\n' "" "$@" "" >&2
    exit 1
}

# Prints the version of the Python $1 ("3.12.1"); false if the lock does not cover it.
suitable() {
    "$1" -c 'import sys
print("%d.%d.%d" % sys.version_info[:3])
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

# The installation behind the Python $1, the same for it and for an environment made with it.
installation() {
    "$1" -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null
}

# What the environment is made from; with the folder, since it holds absolute paths.
ingredients() {
    cat "$0" "$lock" | cksum
    pwd -P
    installation "$venv/bin/python"
}

system=$(uname -s)
[ "$system" = Linux ] || refuse \
    "This is $system, and the kernels are compiled by NVIDIA's NVRTC, here from its wheels for Linux." \
    "Use Linux, WSL2, or a container; the published site works everywhere."

command -v git >/dev/null || refuse \
    "git is missing: pages and records name the commit that they come from." \
    "Install it (Debian, Ubuntu: sudo apt install git) and run make again."

# Of two runs at once, the second waits here and then finds the work done.
exec 9<"$lock"
if command -v flock >/dev/null; then flock 9; fi

# pip's command is the last thing that making an environment puts there.
reusable() {
    [ -x "$venv/bin/pip" ] && suitable "$venv/bin/python" >/dev/null &&
        { [ -z "$python" ] || [ "$(installation "$python")" = "$(installation "$venv/bin/python")" ]; }
}

if reusable; then
    if [ -f "$venv/stamp" ] && [ "$(cat "$venv/stamp")" = "$(ingredients)" ]; then exit 0; fi
else
    if [ -n "$python" ]; then
        version=$(suitable "$python") || refuse \
            "PYTHON=$python ${version:+is Python }${version:-does not run}; the book needs 3.11, 3.12 or 3.13." \
            "Name another, or leave PYTHON out and make looks for one."
        found=$python
    else
        found=
        for name in python3.11 python3.12 python3.13 python3; do
            if suitable "$name" >/dev/null; then found="$found $name"; fi
        done
        version=$(suitable python3) || :
        [ -n "$found" ] || refuse \
            "The book needs Python 3.11, 3.12 or 3.13; python3 on PATH is ${version:-missing}." \
            "Install one, or name it: make html PYTHON=/path/to/python3.12"
    fi
    chosen=
    for name in $found; do
        if "$name" -c 'import venv, ensurepip' 2>/dev/null; then chosen=$name && break; fi
    done
    [ -n "$chosen" ] || refuse \
        "${found# } cannot make virtual environments: the modules venv and ensurepip are missing." \
        "Debian and Ubuntu keep them in a package of its own: sudo apt install python3-venv"
    echo "Making $venv with $chosen ($(suitable "$chosen"))."
    "$chosen" -m venv --clear "$venv" >/dev/null
fi

rm -f "$venv/stamp"
echo "Installing $lock into $venv: the first time a download of 340 MB, 1.3 GB on disk."
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off \
    --require-hashes --requirement "$lock" >"$venv/pip.log" 2>&1 || {
    grep -v WARNING "$venv/pip.log" | tail -n 15 >&2
    refuse "The packages could not be installed: pip's last lines are above, the rest in $venv/pip.log." \
        "Check the network and the free disk space, then run make again: it goes on from here."
}

# Chapters and JupyterLab's kernels import hopper from wherever they run.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
pwd -P >"$site/wgmma-book.pth"

# In JupyterLab a double click on a chapter opens it as a notebook; and it asks no server for news.
settings="$venv/share/jupyter/lab/settings"
mkdir -p "$settings"
cat >"$settings/overrides.json" <<'END'
{
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Jupytext Notebook"}},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}
}
END

ingredients >"$venv/stamp"
