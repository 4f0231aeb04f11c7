# What a machine must have, checked before anything is installed. Read by make.sh, not run by itself.
# What can be installed without asking anybody, is: by root with apt-get. Else a check adds a line to $missing, and nothing
# works without it, or to $lacking, and the target does what it can. So a person sees at once all there is to install.

missing=""
lacking=""        # words, as tools/left_out.py knows them
lacking_told=""

need() {
    missing="$missing
  - $1"
}

# lacks WORD TEXT
lacks() {
    lacking="$lacking $1"
    lacking_told="$lacking_told
  - $2"
}

try_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
    echo "Installing $*"
    (apt-get install -qq -y --no-install-recommends "$@" ||
        (apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@")) >/dev/null 2>&1 || true
}

# Pythons that could build, by the names or paths under which they run: $FOREBAY_PYTHON only, or what is on PATH and pyenv's.
pythons() {
    if [ -n "${FOREBAY_PYTHON:-}" ]; then
        echo "$FOREBAY_PYTHON"
        return
    fi
    echo python3
    for minor in 20 19 18 17 16 15 14 13 12 11; do
        echo "python3.$minor"
    done
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 2>/dev/null | sort -rV
}

# python_fits COMMAND: it runs, is new enough and is no pre-release. Prints its version, 3.11.
python_fits() {
    "$1" -c 'import sys
v = sys.version_info
sys.exit(print("%d.%d" % v[:2]) if v >= (3, 11) and v.releaselevel == "final" else 1)' 2>/dev/null
}

# Python to build with: the first that fits.
find_python() {
    python=""
    for name in $(pythons); do
        if python_fits "$name" >/dev/null; then
            python=$(command -v "$name")
            return
        fi
    done
    need "Python 3.11 or newer (found: $(${FOREBAY_PYTHON:-python3} --version 2>&1 | head -n 1)).
    apt-get install python3 python3-venv python3-dev
    or set FOREBAY_PYTHON to one that is elsewhere"
}

python_version() {
    python_fits "$python"
}

has_module() {
    "$python" -c "import $1" 2>/dev/null
}

# Debian has Python without what puts pip into a virtual environment. Then another pip does that, as it is told by
# tools/install.sh: one of this Python, or one that lies in a package.
pip_wheel() {
    ls build/pip/pip-*.whl 2>/dev/null
}

can_make_venv() {
    has_module ensurepip || { has_module venv && { has_module pip || pip_wheel >/dev/null; }; }
}

check_venv() {
    [ -n "$python" ] || return 0
    has_module ensurepip || try_install "python$(python_version)-venv"
    can_make_venv || fetch_file python3-pip-whl 'pip-*.whl' build/pip/
    can_make_venv || need "the venv module of $python.  apt-get install python$(python_version)-venv"
}

compiler_works() {
    compiler_problem=$("$python" -m tools.native.compiler)
}

check_compiler() {
    [ -n "$python" ] || return 0
    compiler_works || try_install gcc libc6-dev
    compiler_works || try_install "python$(python_version)-dev"
    compiler_works || lacks compiler "$compiler_problem"
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
        lacks mosquitto "mosquitto_pub and mosquitto_sub, which the tests drive.  apt-get install mosquitto-clients"
}

# As real are the clients of librabbitmq: the commands of amqp-tools, and a program in C that the tests compile.
has_librabbitmq() {
    scratch=$(mktemp -d)
    echo '#include <amqp.h>
int main(void) { return amqp_version_number() == 0; }' >"$scratch/try.c"
    "${CC:-cc}" -o "$scratch/try" "$scratch/try.c" -lrabbitmq 2>/dev/null
    found=$?
    rm -rf "$scratch"
    return $found
}

check_librabbitmq() {
    has_commands amqp-publish amqp-get && has_librabbitmq || try_install amqp-tools librabbitmq-dev
    has_commands amqp-publish amqp-get && has_librabbitmq ||
        lacks librabbitmq "librabbitmq and its commands, which the tests drive.  apt-get install amqp-tools librabbitmq-dev"
}

# libcoap's client, one of the two that the CoAP bridge is tested with: Debian names it by its TLS library.
check_libcoap() {
    has_commands coap-client-notls || try_install libcoap3-bin
    has_commands coap-client-notls ||
        lacks libcoap "coap-client-notls of libcoap, which the tests drive.  apt-get install libcoap3-bin"
}

# The pages' examples of HTTP are run as they stand.
check_curl() {
    has_commands curl || try_install curl
    has_commands curl || lacks curl "curl, which the pages' examples use.  apt-get install curl"
}

# Node 16 or newer and npm: the tests run MQTT.js and amqplib, which they install themselves into ~/.cache/forebay-tests.
node_fits() {
    has_commands npm && node -e 'process.exit(parseInt(process.versions.node) < 16 ? 1 : 0)' 2>/dev/null
}

check_node() {
    node_fits || try_install nodejs npm
    node_fits || lacks node "node 16 or newer and npm, for MQTT.js and amqplib in the tests.  apt-get install nodejs npm"
}

# Programs of Debian packages that need not be installed, for these start servers: `fetch_program PACKAGE NAME` takes the
# one file out of the package.
tools_cache=${XDG_CACHE_HOME:-$HOME/.cache}/forebay-tests

has_program() {
    has_commands "$1" || [ -f "$tools_cache/$1" ]
}

fetch_program() {
    fetch_file "$1" "$2" "$tools_cache/$2" -perm -u=x
}

# fetch_file PACKAGE NAME TARGET [CONDITION...]: the longest file of that name and condition out of a package of Debian goes
# to the target, a file or a folder with `/` at its end. Shorter ones are settings and scripts that start a program. Nobody
# has to be root for that.
fetch_file() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return 0
    echo "Fetching $2 out of Debian's package $1"
    scratch=$(mktemp -d)
    mkdir -p "${3%/*}"
    (
        cd "$scratch"
        apt-get download -qq "$1" || (apt-get update -qq && apt-get download -qq "$1")
        mkdir unpacked
        dpkg-deb --fsys-tarfile "$1"_*.deb | tar -x -C unpacked --wildcards "*/$2"
        find unpacked -type f -name "$2" "${@:4}" -printf '%s %p\n' | sort -rn | head -n 1 | cut -d ' ' -f 2- >longest
    ) >/dev/null 2>&1 || true
    [ ! -s "$scratch/longest" ] || mv "$scratch/$(cat "$scratch/longest")" "$3"
    rm -rf "$scratch"
}

# RabbitMQ's tool for its HTTP API, one Python file.
check_rabbitmqadmin() {
    has_program rabbitmqadmin || fetch_program rabbitmq-server rabbitmqadmin
    has_program rabbitmqadmin ||
        lacks rabbitmqadmin "rabbitmqadmin, which the tests drive.  apt-get install rabbitmq-server, or put the file into $tools_cache"
}

# The Prometheus server asks a broker for metrics, and its promtool checks rules.
check_prometheus() {
    for name in prometheus promtool; do
        has_program "$name" || fetch_program prometheus "$name"
        has_program "$name" ||
            lacks prometheus "$name, which the tests drive.  apt-get install prometheus, or put the file into $tools_cache"
    done
}

# etcd keeps the register of a cluster; the tests start one, or three, and `etcdctl` looks into them.
has_etcd() {
    has_commands etcd etcdctl
}

check_etcd() {
    has_etcd || try_install etcd-server etcd-client
    has_etcd || lacks etcd "etcd and etcdctl, which the tests drive.  apt-get install etcd-server etcd-client"
}

# Machines of a cluster are network namespaces, for root or for users who may have a namespace of their own.
has_namespaces() {
    words="--net --mount --pid --fork --mount-proc"
    [ "$(id -u)" = 0 ] || words="$words --user --map-root-user"
    has_commands unshare nsenter ip tc &&
        unshare $words sh -c 'mount -t tmpfs none /run && ip netns add a && ip link add bridge type bridge' 2>/dev/null
}

check_namespaces() {
    has_namespaces || try_install iproute2 util-linux
    has_namespaces || lacks namespaces "network namespaces, in which the tests break a cluster: \`ip\`, and root or user namespaces"
}

# Chromium shows the web page to the tests; Playwright drives it.
has_chromium() {
    has_commands chromium || has_commands chromium-browser
}

check_chromium() {
    has_chromium || try_install chromium
    has_chromium || lacks chromium "chromium, in which the tests look at the web page.  apt-get install chromium"
}

stop_if_missing() {
    [ -z "$missing" ] && return
    echo "forebay needs some things that are not here:$missing" >&2
    exit 1
}

stop_without_compiler() {
    case $lacking in
    *compiler*)
        echo "$1 is for the compiled build, which needs something that is not here:$lacking_told" >&2
        exit 1
        ;;
    esac
}
