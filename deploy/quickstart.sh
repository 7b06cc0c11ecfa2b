#!/usr/bin/env bash
# quickstart.sh BINARY [SCALE]: TPC-H queries on a cluster inside one process (two TaskManagers), over data generated while they are
# read: the answers, then the same query with its stages, rows and times.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
thalweg=$1
scale=${2:-0.1}
queries=$here/../integration-tests/tpch/queries

declare_tables() {
    for table in region nation supplier customer part partsupp orders lineitem; do
        echo "CREATE TABLE $table WITH ('connector'='tpch','scale-factor'='$scale');"
    done
}
script=$(mktemp)
trap 'rm -f "$script"' EXIT

# run TITLE PREFIX QUERY
run() {
    { declare_tables; printf '%s ' "$2"; cat "$queries/$3.sql"; echo ';'; } >"$script"
    printf '\n== %s\n' "$1"
    local start=$EPOCHREALTIME
    "$thalweg" local --task-managers 2 --format table -D execution.batch.single-task-threshold=0 -f "$script"
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "(%.2f s with starting and stopping the cluster)\n", b - a }'
}

echo "TPC-H at scale factor $scale, generated while it is read"
run "q01: pricing summary" "" q01
run "q03: shipping priority" "" q03
run "q05: local supplier volume" "" q05
run "q05 once more: what ran where, and what was decided at run time" "EXPLAIN ANALYZE" q05
cat <<END

Next: start a cluster of processes and ask it
  $thalweg jobmanager &
  $thalweg taskmanager &
  $thalweg sql -e "SELECT 1"
END
