# What a machine must have, checked before anything is installed. Read by make.sh, not run by itself.
# Every check adds a line to $missing, so that a person sees at once all there is to install.

missing=""

need() {
    missing="$missing
  - $1"
}

# Python to build with: $FOREBAY_PYTHON, or the first of the usual names that runs and has a version that fits.
find_python() {
    python=""
    for name in ${FOREBAY_PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            python=$(command -v "$name")
            return
        fi
    done
    need "Python 3.11, 3.12 or 3.13 (found: $(${FOREBAY_PYTHON:-python3} --version 2>&1 | head -n 1)).
    apt-get install python3 python3-venv python3-dev
    or set FOREBAY_PYTHON to one that is elsewhere"
}

python_version() {
    "$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

check_venv() {
    [ -n "$python" ] || return 0
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        need "the venv module of $python.  apt-get install python$(python_version)-venv"
}

check_compiler() {
    compiler=""
    scratch=$(mktemp -d)
    echo '#include <stdlib.h>
int main(void) { return 0; }' >"$scratch/try.c"
    for name in ${CC:-cc gcc clang}; do
        if "$name" -o "$scratch/try" "$scratch/try.c" 2>/dev/null; then
            compiler=$name
            break
        fi
    done
    if [ -z "$compiler" ]; then
        need "a C compiler that works.  apt-get install gcc libc6-dev"
    elif [ -n "$python" ]; then
        include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
        echo '#include <Python.h>
int main(void) { return 0; }' >"$scratch/try.c"
        "$compiler" -I"$include" -c -o "$scratch/try.o" "$scratch/try.c" 2>/dev/null ||
            need "the headers of $python ($include/Python.h).  apt-get install python$(python_version)-dev"
    fi
    rm -rf "$scratch"
}

# Installs Debian packages where that can be done without asking anybody; whether it worked is seen by what is there then.
try_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
    echo "Installing $* for the tests"
    (apt-get install -qq -y --no-install-recommends "$@" ||
        (apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@")) >/dev/null 2>&1 || true
}

has_commands() {
    for name in "$@"; do
        command -v "$name" >/dev/null 2>&1 || return 1
    done
}

# The tests drive mosquitto_pub and mosquitto_sub, real clients that PyPI does not carry.
check_mosquitto() {
    has_commands mosquitto_pub mosquitto_sub || try_install mosquitto-clients
    has_commands mosquitto_pub mosquitto_sub ||
        need "mosquitto_pub and mosquitto_sub, which the tests drive.  apt-get install mosquitto-clients"
}

# As real are the clients of librabbitmq: the commands of amqp-tools, and a program in C that the tests compile.
has_librabbitmq() {
    scratch=$(mktemp -d)
    echo '#include <amqp.h>
int main(void) { return amqp_version_number() == 0; }' >"$scratch/try.c"
    "${compiler:-cc}" -o "$scratch/try" "$scratch/try.c" -lrabbitmq 2>/dev/null
    found=$?
    rm -rf "$scratch"
    return $found
}

check_librabbitmq() {
    has_commands amqp-publish amqp-get && has_librabbitmq || try_install amqp-tools librabbitmq-dev
    has_commands amqp-publish amqp-get && has_librabbitmq ||
        need "librabbitmq and its commands, which the tests drive.  apt-get install amqp-tools librabbitmq-dev"
}

# The pages' examples of HTTP are run as they stand.
check_curl() {
    has_commands curl || try_install curl
    has_commands curl || need "curl, which the pages' examples use.  apt-get install curl"
}

# Node 16 or newer and npm: the tests run MQTT.js and amqplib, which they install themselves into ~/.cache/forebay-tests.
node_fits() {
    has_commands npm && node -e 'process.exit(parseInt(process.versions.node) < 16 ? 1 : 0)' 2>/dev/null
}

check_node() {
    node_fits || try_install nodejs npm
    node_fits || need "node 16 or newer and npm, for MQTT.js and amqplib in the tests.  apt-get install nodejs npm"
}

# Programs of Debian packages that need not be installed, for these start servers: `fetch_program PACKAGE NAME` takes the
# one file out of the package.
tools_cache=${XDG_CACHE_HOME:-$HOME/.cache}/forebay-tests

has_program() {
    has_commands "$1" || [ -f "$tools_cache/$1" ]
}

fetch_program() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return 0
    echo "Fetching $2 for the tests"
    scratch=$(mktemp -d)
    (
        cd "$scratch"
        apt-get download -qq "$1" || (apt-get update -qq && apt-get download -qq "$1")
        mkdir unpacked
        dpkg-deb --fsys-tarfile "$1"_*.deb | tar -x -C unpacked --wildcards "*/$2"
        mkdir -p "$tools_cache"
        # The longest program of that name: others are settings and scripts that start it.
        file=$(find unpacked -type f -perm -u=x -name "$2" -printf '%s %p\n' | sort -rn | head -n 1 | cut -d ' ' -f 2-)
        mv "$file" "$tools_cache/$2"
    ) >/dev/null 2>&1 || true
    rm -rf "$scratch"
}

# RabbitMQ's tool for its HTTP API, one Python file.
check_rabbitmqadmin() {
    has_program rabbitmqadmin || fetch_program rabbitmq-server rabbitmqadmin
    has_program rabbitmqadmin ||
        need "rabbitmqadmin, which the tests drive.  apt-get install rabbitmq-server, or put the file into $tools_cache"
}

# The Prometheus server asks a broker for metrics, and its promtool checks rules.
check_prometheus() {
    for name in prometheus promtool; do
        has_program "$name" || fetch_program prometheus "$name"
        has_program "$name" ||
            need "$name, which the tests drive.  apt-get install prometheus, or put the file into $tools_cache"
    done
}

# Chromium shows the web page to the tests; Playwright drives it.
has_chromium() {
    has_commands chromium || has_commands chromium-browser
}

check_chromium() {
    has_chromium || try_install chromium
    has_chromium || need "chromium, in which the tests look at the web page.  apt-get install chromium"
}

stop_if_missing() {
    [ -z "$missing" ] && return
    echo "forebay needs some things that are not here:$missing" >&2
    exit 1
}
