#!/bin/sh
# spark-pipelines with what it has to know before it reads spark-pipeline.yml. `run.sh dry-run` only checks.
set -eu
cd "$(dirname "$0")"
JAVA_HOME=$(python -m forebay.spark.java)
PYSPARK_PYTHON=$(python -c 'import sys; print(sys.executable)')
SPARK_HOME=${SPARK_HOME:-$(python -m forebay.spark.home)}
export JAVA_HOME PYSPARK_PYTHON SPARK_HOME
command=${1:-run}
[ $# = 0 ] || shift
# A catalog on the disk, in metastore_db: a later run finds the tables of this one.
exec "$SPARK_HOME/bin/spark-pipelines" "$command" "$@" \
    --conf spark.sql.catalogImplementation=hive \
    --conf spark.sql.warehouse.dir="file://$PWD/tables"
