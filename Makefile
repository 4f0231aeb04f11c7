# What it needs: Python 3.11 to 3.13 with venv and headers, a C compiler. Java comes from PyPI where there is none.
# Each target checks that first and says what to install. FOREBAY_PYTHON names the Python to use.

.PHONY: run demo test test-peers lint bench docs clean help

help:
	@echo "make run    install (compiled) into .venv and start a broker on ./data"
	@echo "make demo   a year of flights through a broker, two workers and Spark"
	@echo "make test   everything that CI checks: lint, types, layers, all tests on both builds"
	@echo "make test-peers  the tests that compare with a real RabbitMQ 4, which bench/load/peers.sh starts (root, Debian)"
	@echo "make lint   only the checks that run no test"
	@echo "make bench  measure this machine"
	@echo "make docs   write the generated pages of docs/ anew"
	@echo "make clean  remove the environments and what was built; ./data stays"

run:
	@tools/make.sh run

demo:
	@tools/make.sh demo

test:
	@tools/make.sh test

test-peers:
	@tools/make.sh test-peers

lint:
	@tools/make.sh lint

bench:
	@tools/make.sh bench

docs:
	@tools/make.sh docs

clean:
	rm -rf .venv .venv-pure build src/forebay.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache spark-warehouse
