# How make.sh installs forebay into an environment, and makes wheels. Read by make.sh, not run by itself.

QUIET=(--quiet --disable-pip-version-check)
# CPU seconds of a compiled build with an empty cache: what one core must do alone, and what all share.
ALONE_S=20
SHARED_S=120

# make_venv FOLDER: a virtual environment of the Python that was found, made anew where that has changed.
make_venv() {
    local folder=$1 version
    version=$("$python" -c 'import sys; print(sys.prefix, *sys.version.split())')
    if [ "$(cat "$folder/forebay.python" 2>/dev/null)" != "$version" ] || ! "$folder/bin/python" -c '' 2>/dev/null; then
        rm -rf "$folder"
        if has_module ensurepip; then
            "$python" -m venv "$folder"
        else
            "$python" -m venv --without-pip "$folder"
            give_pip "$folder"
        fi
        echo "$version" >"$folder/forebay.python"
    fi
}

# give_pip FOLDER: pip for an environment of a Python that has none to give; check_venv has seen to another one.
give_pip() {
    if has_module pip; then
        "$python" -m pip --python "$1/bin/python" install "${QUIET[@]}" pip
    else
        "$1/bin/python" "$(pip_wheel)/pip" install "${QUIET[@]}" --no-index "$(pip_wheel)"
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

# backend CALL SOURCES [PURE]: call the build backend in a folder of sources; what it prints is shown where it fails.
backend() {
    local call=$1 sources=$2 pure=${3:-0} here=$PWD log
    log=$(mktemp /tmp/forebay.XXXXXX)
    # With this variable setuptools warns that it compiles no .pyc, which it would not do without, either.
    if ! (cd "$sources" && env -u PYTHONDONTWRITEBYTECODE FOREBAY_PURE="$pure" FOREBAY_BUILD_CACHE="$here/build/cache" \
        "$here/$build_env/bin/python" -c "from tools.native import backend; backend.$call" >"$log"); then
        tail -n 20 "$log" >&2
        rm "$log"
        return 1
    fi
    rm "$log"
}

# make_build_env WANTED: the environment that wheels for this Python are built in, in $build_env.
make_build_env() {
    build_env=build/env-$(python_version)
    make_venv "$build_env"
    require "$build_env" "$1"
}

# copy_sources INTO: all that an sdist has. Wheels are built in a copy: nothing is left in the sources, and no module of an
# earlier build gets into them.
copy_sources() {
    mkdir -p "$1"
    tar -c --exclude=__pycache__ --exclude='*.egg-info' --exclude='*.so' .ci .dockerignore CHANGELOG.md LICENSE MANIFEST.in \
        Makefile README.md bench deploy docs examples mkdocs.yml pyproject.toml setup.py src tests tools | tar -x -C "$1"
}

# state_of_sources: a text that changes with everything that forebay's wheel is made from.
state_of_sources() {
    find src tools/native setup.py pyproject.toml -type f -not -name '*.pyc' -not -path '*.egg-info/*' -print0 |
        sort -z | xargs -0 sha256sum | sha256sum | cut -c1-64
}

# make_wheel PURE: forebay's wheel for this Python is in $wheel_folder, alone; built where the sources have changed. Objects
# that still fit are taken from build/cache.
make_wheel() {
    local pure=$1 state scratch
    state="$(state_of_sources) $("$python" -c 'import sys; print(*sys.version.split())')"
    wheel_folder=build/wheel/$(python_version)-$([ "$pure" = 1 ] && echo pure || echo compiled)
    [ "$(cat "$wheel_folder/state" 2>/dev/null)" = "$state" ] && return
    [ "$pure" = 1 ] || tell_estimate
    make_build_env "$([ "$pure" = 1 ] && echo pure-build || echo build)"
    scratch=$(mktemp -d /tmp/forebay.XXXXXX)
    copy_sources "$scratch/sources"
    if ! backend "build_wheel('$scratch')" "$scratch/sources" "$pure"; then
        rm -rf "$scratch"
        return 1
    fi
    rm -rf "$wheel_folder"
    mkdir -p "$wheel_folder"
    mv "$scratch"/forebay-*.whl "$wheel_folder"
    echo "$state" >"$wheel_folder/state"
    rm -rf "$scratch"
}

# tell_estimate: how long compiling takes where the machine does nothing else.
tell_estimate() {
    local cores
    cores=$(nproc)  # fewer than there are, where the process may use fewer
    if [ -n "$(ls build/cache 2>/dev/null)" ]; then
        echo "  compiling what has changed: about $ALONE_S s, and up to $((SHARED_S / cores)) more where that is used everywhere"
    else
        echo "  compiling: about $((ALONE_S + SHARED_S / cores)) s on these $cores cores if they do nothing else"
    fi
}

# environment FOLDER EXTRAS [PURE]: a virtual environment with forebay in it; only what has changed is made anew.
environment() {
    local folder=$1 extras=$2 pure=${3:-0} state required
    make_venv "$folder"
    require "$folder" "$extras" & # from PyPI, while the compiler works
    required=$!
    state="$(state_of_sources) $pure"
    if [ "$(cat "$folder/forebay.state" 2>/dev/null)" != "$state" ]; then
        echo "Installing forebay$extras into $folder ($([ "$pure" = 1 ] && echo interpreted || echo compiled))"
        rm -f "$folder/forebay.state"
        make_wheel "$pure"
        wait "$required"
        "$folder/bin/python" -m pip install "${QUIET[@]}" --no-deps --force-reinstall "$wheel_folder"/forebay-*.whl
        echo "$state" >"$folder/forebay.state"
    else
        wait "$required"
    fi
}

# packages FOLDER EXTRAS: a virtual environment with what stands beside forebay, which then runs from the sources.
packages() {
    make_venv "$1"
    require "$1" "$2"
}
