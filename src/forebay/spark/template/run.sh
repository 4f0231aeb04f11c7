#!/bin/sh
# spark-pipelines with what it has to know before it reads spark-pipeline.yml. `run.sh dry-run` only checks.
set -eu
cd "$(dirname "$0")"
JAVA_HOME=$(python -m forebay.spark.java)
PYSPARK_PYTHON=$(python -c 'import sys; print(sys.executable)')
spark_home=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
export JAVA_HOME PYSPARK_PYTHON
command=${1:-run}
[ $# = 0 ] || shift
# A catalog on the disk, in metastore_db: a later run finds the tables of this one.
exec "$spark_home/bin/spark-pipelines" "$command" "$@" \
    --conf spark.sql.catalogImplementation=hive \
    --conf spark.sql.warehouse.dir="file://$PWD/tables"
