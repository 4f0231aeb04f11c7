# What it needs: Python 3.11 or newer; with a C compiler and Python's headers forebay is compiled. What is missing is
# installed where that can be done (root, apt-get), else it is named. FOREBAY_PYTHON names the Python to use.

.PHONY: run demo check test test-peers lint bench docs wheel wheels spark-zip clean help

help:
	@echo "make run    install (compiled) into .venv and start a broker on ./data"
	@echo "make demo   a year of flights through a broker, two workers and Spark"
	@echo "make check  before a commit: lint, types, layers, unit tests on the sources, in 3 minutes and without a compiler"
	@echo "make test   everything that CI checks: lint, types, layers, all tests on both builds"
	@echo "make test-peers  the tests that compare with a real RabbitMQ 4, which bench/load/peers.sh starts (root, Debian)"
	@echo "make lint   only the checks that run no test"
	@echo "make bench  measure this machine"
	@echo "make docs   write the generated pages of docs/ anew, and all pages as a site in ./build/site"
	@echo "make wheel  an sdist and a wheel for this Python and other machines, tried out, in ./dist"
	@echo "make wheels the same for every Python from 3.11 on that is here"
	@echo "make spark-zip  what executors of Spark need of forebay, for --py-files, in ./dist/forebay-spark.zip"
	@echo "make clean  remove the environments and what was built, ./dist included; ./data stays"

run:
	@tools/make.sh run

demo:
	@tools/make.sh demo

check:
	@tools/make.sh check

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

wheel:
	@tools/make.sh wheel

wheels:
	@tools/make.sh wheels

spark-zip:
	@tools/make.sh spark-zip

clean:
	rm -rf .venv build dist src/forebay.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache spark-warehouse
