#!/usr/bin/env bash
# The targets of the Makefile: run, demo, test, test-peers, lint, bench, docs.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/prerequisites.sh
. tools/install.sh

# What Spark and the long job on top of it show does not depend on the build: of the compiled modules Spark imports only
# log/block, whose octets the tests of both builds compare, and the demo is the same clients against the broker that
# every other test of both builds starts. Style, pages, tidiness, the document of the HTTP API and the web page are one
# for both builds by nature. So: once.
ONCE="tests/spark tests/demo tests/docs tests/admin/test_schema.py tests/ui tests/test_tidy.py"

lint() {
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/mypy
    PYTHONPATH=src .venv/bin/lint-imports
}

find_python
check_venv
check_compiler
case $1 in
test)
    check_mosquitto
    check_librabbitmq
    check_curl
    check_node
    check_chromium
    check_rabbitmqadmin
    check_prometheus
    ;;
esac
stop_if_missing
unset PYTHONPATH

case $1 in
run)
    environment .venv ""
    cat <<'TEXT'

Starting a broker; Ctrl-C stops it. Once it says `ready`:
  MQTT  127.0.0.1:1883    user guest, password guest
  AMQP  127.0.0.1:5672    the same
  page  http://127.0.0.1:15672    the same
  data  ./data
Try next, in another terminal (apt-get install mosquitto-clients amqp-tools):
  mosquitto_sub -u guest -P guest -t 'sensors/#' -v
  mosquitto_pub -u guest -P guest -q 1 -t sensors/kitchen -m 21.5
  amqp-declare-queue -u amqp://guest:guest@127.0.0.1 -d -q jobs
  mosquitto_pub -u guest -P guest -q 1 -t '$queue/jobs/print' -m 'page 1'
  amqp-get -u amqp://guest:guest@127.0.0.1 -q jobs
  make demo           a year of flights, two workers and Spark
TEXT
    exec .venv/bin/forebay serve --data ./data --mqtt 127.0.0.1:1883 --amqp 127.0.0.1:5672
    ;;
demo)
    environment .venv "[demo]"
    exec .venv/bin/forebay demo
    ;;
lint)
    environment .venv "[dev]"
    lint
    ;;
docs)
    environment .venv "[dev]"
    .venv/bin/python tools/generate_docs.py
    ;;
bench)
    environment .venv "[dev]"
    exec .venv/bin/python bench/run.py
    ;;
test)
    environment .venv "[dev]"
    environment .venv-pure "[test,lake]" 1  # Spark's unit tests turn blocks of this build into Arrow arrays
    lint
    .venv/bin/forebay version | grep -F "(compiled,"
    .venv-pure/bin/forebay version | grep -F "(interpreted,"
    echo "Tests, compiled build"
    .venv/bin/python -m pytest -q -n 2 --dist loadfile
    echo "Tests, interpreted build (without those that no build changes: $ONCE)"
    .venv-pure/bin/python -m pytest -q -n 2 --dist loadfile $(printf -- '--ignore=%s ' $ONCE)
    ;;
test-peers)
    environment .venv "[dev]"
    FOREBAY_PEERS=$(realpath "${FOREBAY_PEERS:-bench/load/peers.sh}")
    export FOREBAY_PEERS
    exec .venv/bin/python -m pytest -q tests/peers
    ;;
*)
    echo "unknown target $1" >&2
    exit 2
    ;;
esac
