# How make.sh installs forebay into an environment. Read by make.sh, not run by itself.

QUIET=(--quiet --disable-pip-version-check)

# make_venv FOLDER: a virtual environment of the Python that was found, made anew where that has changed.
make_venv() {
    local folder=$1 version
    version=$("$python" -c 'import sys; print(sys.prefix, *sys.version.split())')
    if [ "$(cat "$folder/forebay.python" 2>/dev/null)" != "$version" ] || ! "$folder/bin/python" -c '' 2>/dev/null; then
        rm -rf "$folder"
        "$python" -m venv "$folder"
        echo "$version" >"$folder/forebay.python"
    fi
}

# require FOLDER WANTED: the requirements that tools/requirements.py prints for WANTED are installed.
require() {
    local folder=$1 wanted
    wanted=$("$python" tools/requirements.py "$2")
    if grep -qvxF -f <(cat "$folder/forebay.requirements" 2>/dev/null) <<<"$wanted"; then
        "$folder/bin/python" -m pip install "${QUIET[@]}" -r <(echo "$wanted")
        echo "$wanted" >>"$folder/forebay.requirements"
    fi
}

# build_wheel PURE FOLDER: forebay's wheel into FOLDER, built in a copy: nothing is left in the sources, and no module of an
# earlier build gets into it. Objects that still fit are taken from build/cache.
build_wheel() {
    local pure=$1 into=$2 scratch
    make_venv build/env
    require build/env "$([ "$pure" = 1 ] && echo pure-build || echo build)"
    scratch=$(mktemp -d /tmp/forebay.XXXXXX)
    mkdir -p "$into"
    cp -r src tools setup.py pyproject.toml README.md LICENSE "$scratch"
    if ! (cd "$scratch" && FOREBAY_PURE=$pure FOREBAY_BUILD_CACHE="$OLDPWD/build/cache" \
        "$OLDPWD/build/env/bin/python" -c 'import sys, setuptools.build_meta as build; build.build_wheel(sys.argv[1])' \
        "$into" >build.log); then
        tail -n 20 "$scratch/build.log" >&2
        rm -rf "$scratch"
        return 1
    fi
    rm -rf "$scratch"
}

# environment FOLDER EXTRAS [PURE]: a virtual environment with forebay in it; only what has changed is made anew.
environment() {
    local folder=$1 extras=$2 pure=${3:-0} state required wheels
    state=$(find src tools/native setup.py pyproject.toml -type f -not -name '*.pyc' -not -path '*.egg-info/*' -print0 |
        sort -z | xargs -0 sha256sum | sha256sum | cut -c1-64)
    make_venv "$folder"
    require "$folder" "$extras" & # from PyPI, while the compiler works
    required=$!
    if [ "$(cat "$folder/forebay.state" 2>/dev/null)" != "$state $pure" ]; then
        echo "Installing forebay$extras into $folder ($([ "$pure" = 1 ] && echo interpreted ||
            echo "compiled: 1 to 2 minutes on two cores, less where an earlier build left something"))"
        rm -f "$folder/forebay.state"
        wheels=$(mktemp -d /tmp/forebay.XXXXXX)
        build_wheel "$pure" "$wheels"
        wait "$required"
        "$folder/bin/python" -m pip install "${QUIET[@]}" --no-deps --force-reinstall "$wheels"/forebay-*.whl
        rm -rf "$wheels"
        echo "$state $pure" >"$folder/forebay.state"
    else
        wait "$required"
    fi
}
