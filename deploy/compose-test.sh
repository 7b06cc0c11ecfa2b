#!/usr/bin/env bash
# compose-test.sh: the composed cluster, tried across containers: answers from the host while a TaskManager is killed, and while
# another is cut off the network.
#
# Needs docker and Compose (v2 or docker-compose 1.29), and fails where they are missing. Leaves no container, network or volume behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
export THALWEG_TAG=${THALWEG_TAG:-compose-test}
export THALWEG_PORT=${THALWEG_PORT:-16123}
export COMPOSE_PROJECT_NAME=thalweg-compose-test
# The only secret is a fresh one; clients read it from the same variable.
THALWEG_SECURITY_TOKEN=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export THALWEG_SECURITY_TOKEN
jobmanager=127.0.0.1:$THALWEG_PORT
network=${COMPOSE_PROJECT_NAME}_cluster
work=$(mktemp -d)

fail() { echo "compose-test: $*" >&2; exit 1; }

command -v docker >/dev/null || fail "docker is not installed"
docker info >/dev/null 2>&1 || fail "the docker daemon does not answer"
if docker compose version >/dev/null 2>&1; then
    compose() { docker compose -f "$here/docker-compose.yml" "$@"; }
elif command -v docker-compose >/dev/null; then
    compose() { docker-compose -f "$here/docker-compose.yml" "$@"; }
else
    fail "neither 'docker compose' nor 'docker-compose' is installed"
fi

finish() {
    code=$?
    if [ "$code" != 0 ]; then compose logs --no-color --tail 60 >&2 || true; fi
    compose down --volumes --remove-orphans --timeout 5 >/dev/null 2>&1 || true
    rm -rf "$work"
    exit "$code"
}
trap finish EXIT

# await LIMIT WHAT COMMAND…: tries each half second until the command succeeds.
await() {
    local limit=$1 what=$2 end
    shift 2
    end=$((SECONDS + limit))
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || fail "$what: not within $limit s"
        sleep 0.5
    done
}

registered() { "$thalweg" cluster --jobmanager "$jobmanager" --json 2>/dev/null | grep -o '"data_address"' | wc -l; }
has_registered() { [ "$(registered)" = "$1" ]; }
taskmanagers() { docker ps --quiet --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" \
    --filter label=com.docker.compose.service=taskmanager; }

# query NUMBER: runs a TPC-H query at scale factor 1 from the host.
query() {
    { for table in region nation supplier customer part partsupp orders lineitem; do
          echo "CREATE TABLE $table WITH ('connector'='tpch','scale-factor'='1');"
      done
      sed 's/__FRACTION__/0.0001/' "$root/integration-tests/tpch/queries/q$1.sql"; echo ';'; } >"$work/q$1.script"
    timeout 300 "$thalweg" sql --jobmanager "$jobmanager" --format csv -D execution.batch.single-task-threshold=0 \
        -f "$work/q$1.script" >"$work/q$1.csv"
}
check() {
    "$checker" "$root/integration-tests/tpch/answers/sf1/q$1.csv" "$root/integration-tests/tpch/queries/q$1.sql" "$work/q$1.csv" ||
        fail "q$1: wrong answer $2"
    echo "q$1: right, $2"
}
# Some task has ended and another runs: the job is in its middle.
in_the_middle() {
    local job
    job=$("$thalweg" jobs list --jobmanager "$jobmanager" --json | python3 "$here/running_job.py" id) || return 1
    "$thalweg" jobs show "$job" --jobmanager "$jobmanager" --json | python3 "$here/running_job.py" busy
}

(cd "$root" && cargo build --release --workspace --bin thalweg --example check_answer)
target=${CARGO_TARGET_DIR:-$root/target}/release
thalweg=$target/thalweg
checker=$target/examples/check_answer
THALWEG_BIN=$thalweg "$here/image.sh" "$THALWEG_TAG"

compose up --detach --scale taskmanager=2
await 90 "two registered TaskManagers" has_registered 2
"$thalweg" cluster --jobmanager "$jobmanager"

query 05; check 05 "with both TaskManagers"

# Without the token nothing is answered.
if env -u THALWEG_SECURITY_TOKEN "$thalweg" cluster --jobmanager "$jobmanager" --json >/dev/null 2>&1; then
    fail "a client without the token was answered"
fi
echo "a client without the token was refused"

query 21 & running=$!
await 60 "q21 to be in its middle" in_the_middle
victim=$(taskmanagers | head -n 1)
docker kill "$victim" >/dev/null
wait "$running" || fail "q21 failed after a TaskManager's container was killed"
check 21 "with a TaskManager's container killed under it"
compose up --detach --scale taskmanager=2 --no-recreate
await 90 "the replacement to register" has_registered 2

query 09 & running=$!
await 60 "q09 to be in its middle" in_the_middle
victim=$(taskmanagers | head -n 1)
docker network disconnect "$network" "$victim"
wait "$running" || fail "q09 failed after a TaskManager was cut off"
check 09 "with a TaskManager cut off the network under it"
await 30 "the cut off TaskManager to be given up" has_registered 1

docker network connect "$network" "$victim"
query 18; check 18 "after the TaskManager was connected again"
echo "compose-test: passed"
