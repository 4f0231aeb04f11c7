#!/usr/bin/env bash
# The targets of the Makefile: run, demo, check, test, test-peers, lint, bench, docs, wheel, wheels, spark-zip.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/prerequisites.sh
. tools/install.sh
. tools/wheels.sh

# What a build can change, and so runs on the interpreted sources, too: codecs, the dialect, properties, a slice of
# conformance, start, stop and kill -9. docs/development.md says what covers the rest.
INTERPRETED="tests/unit/wire tests/unit/log tests/unit/queue tests/unit/filter tests/unit/routing tests/unit/message
    tests/unit/replica tests/unit/session tests/unit/broker tests/props tests/simulation tests/fuzz tests/conformance/blocks
    tests/conformance/amqp091/test_04_publish.py tests/conformance/amqp091/test_05_consume.py
    tests/conformance/amqp091/test_06_transactions.py tests/conformance/mqtt/test_02_publish.py
    tests/conformance/mqtt/v5/test_publish.py tests/conformance/mqtt/v5/test_session.py
    tests/behaviour/test_queue_kinds.py tests/behaviour/test_stop.py tests/unit/server/test_start.py
    tests/crash/test_kill9.py"
# Tests at a time: they wait for half of their time. Two of them may have a JVM (tests/scheduling.py).
WORKERS=4
# What a developer runs before a commit, on the sources as they are.
CHECKED="tests/unit tests/test_tidy.py"

lint() {
    local -x PYTHONPATH=$PWD/src  # the sources, whether or not an earlier build is installed
    local types told=build/types.txt wrong=0
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    # On one core, and for as long as all that follows: beside it.
    mkdir -p build
    .venv/bin/mypy > "$told" 2>&1 &
    types=$!
    .venv/bin/lint-imports
    site --strict
    wait "$types" || wrong=$?
    cat "$told"
    return "$wrong"
}

# site OPTIONS...: the pages as a site in build/site. mkdocs says of itself what it will not be in 2.0: nobody asked.
site() {
    NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet "$@"
}

# What the machine lacks for the tests is said before they run, and again after, whatever came out.
tell_left_out() {
    [ -n "$lacking" ] || return 0
    echo "This machine lacks$lacking_told"
    echo "So these are left out:"
    "$python" tools/left_out.py --tell $lacking
}

# run_tests BUILD OPTIONS...: the tests on all workers; build/tests has what each took.
run_tests() {
    local build=$1
    shift
    .venv/bin/python -m pytest -q -n "$WORKERS" --dist loadfile --junitxml="build/tests/$build.xml" "$@"
}

# forebay in .venv: compiled, or interpreted where that is not possible here.
installed() {
    if [ -n "$lacking" ]; then
        echo "forebay runs interpreted here: $("$python" -c 'from tools.native.compiler import SLOWER; print(SLOWER)')"
        echo "For the compiled build install what is missing, and then \`make $target\` again:$lacking_told"
        environment .venv "$1" 1
    else
        environment .venv "$1"
    fi
}

target=$1
find_python
check_venv
case $target in
run | demo | wheel | bench | test-peers)
    check_compiler
    ;;
test)
    check_compiler
    check_mosquitto
    check_librabbitmq
    check_libcoap
    check_curl
    check_node
    check_chromium
    check_rabbitmqadmin
    check_prometheus
    check_etcd
    check_namespaces
    ;;
check)
    check_etcd
    ;;
esac
stop_if_missing
unset PYTHONPATH
# Tests start hundreds of processes, each of which would compile again what it imports.
unset PYTHONDONTWRITEBYTECODE

case $target in
run)
    installed ""
    cat <<TEXT

Starting a broker; Ctrl-C stops it. Once it says \`ready\`:
  MQTT  127.0.0.1:1883    user guest, password guest
  AMQP  127.0.0.1:5672    the same
  page  http://127.0.0.1:15672    the same
  data  ./data
Try next, in another terminal (docs/tutorials/getting-started.md goes on from there):
  export PATH=$PWD/.venv/bin:\$PATH
  forebay queue declare jobs
  forebay publish --queue jobs 'page 1'
  forebay consume --queue jobs
  make demo           a year of flights, two workers and Spark
TEXT
    exec .venv/bin/forebay serve --data ./data --mqtt 127.0.0.1:1883 --amqp 127.0.0.1:5672
    ;;
demo)
    installed "[demo]"
    exec .venv/bin/python -m examples.flights.demo
    ;;
lint)
    packages .venv "[dev]"
    lint
    ;;
docs)
    packages .venv "[dev]"
    PYTHONPATH=$PWD/src .venv/bin/python tools/generate_docs.py
    site
    echo "The site is in build/site; with its search: python3 -m http.server --directory build/site"
    ;;
bench)
    stop_without_compiler "A measurement"
    environment .venv "[dev]"
    exec .venv/bin/python bench/run.py
    ;;
check)
    packages .venv "[dev]"
    lint
    left_out=$([ -z "$lacking" ] || "$python" tools/left_out.py $lacking)
    PYTHONPATH=$PWD/src .venv/bin/python -m pytest -q -n "$WORKERS" --dist loadfile $left_out $CHECKED
    tell_left_out
    ;;
test)
    tell_left_out
    if [ -n "$lacking" ] && [ -n "${CI:-}" ]; then
        echo "What CI says holds for everything, so it stops here." >&2
        exit 1
    fi
    trap tell_left_out EXIT
    left_out=$([ -z "$lacking" ] || "$python" tools/left_out.py $lacking)
    case $lacking in
    *compiler*)
        environment .venv "[dev]" 1
        lint
        echo "Tests, interpreted build"
        .venv/bin/python -m pytest -q -n "$WORKERS" --dist loadfile $left_out
        exit
        ;;
    esac
    environment .venv "[dev]"
    # Beside lint, and once: each worker would rewrite the assertions of all tests. What is wrong the runs below say.
    .venv/bin/python -m pytest -q --collect-only $left_out > build/collected.txt 2>&1 &
    collecting=$!
    lint
    wait "$collecting" || true
    .venv/bin/forebay version | grep -F "(compiled,"
    PYTHONPATH=$PWD/src .venv/bin/python -m forebay version | grep -F "(interpreted,"
    failed=""
    echo "Tests, compiled build"
    run_tests compiled $left_out || failed=1
    echo "Tests, interpreted build: what a build can change"
    # The compiled run has tried all examples of each property; drawing them takes most of their time, on both builds.
    FOREBAY_EXAMPLES_PART=4 PYTHONPATH=$PWD/src run_tests interpreted $left_out $INTERPRETED || failed=1
    .venv/bin/python tools/test_times.py build/tests/compiled.xml build/tests/interpreted.xml
    [ -z "$failed" ]
    ;;
test-peers)
    installed "[dev]"
    FOREBAY_PEERS=$(realpath "${FOREBAY_PEERS:-bench/load/peers.sh}")
    export FOREBAY_PEERS
    exec .venv/bin/python -m pytest -q tests/peers
    ;;
wheel)
    stop_without_compiler "A wheel"
    make_build_env wheel
    dist_sdist dist
    dist_wheel
    smoke_test "$wheel"
    note_tested "$wheel"
    ls -l "$sdist" "$wheel"
    ;;
wheels)
    all_wheels
    cat dist/tested.md
    ;;
spark-zip)
    packages .venv "[dev]"
    PYTHONPATH=$PWD/src .venv/bin/python -m forebay.spark.setup.archive dist/forebay-spark.zip
    ;;
*)
    echo "unknown target $target" >&2
    exit 2
    ;;
esac
