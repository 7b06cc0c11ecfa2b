#!/usr/bin/env bash
# image.sh [TAG]: builds the image thalweg:TAG (latest) from a release binary built here.
#
# THALWEG_BIN names a binary that is already there. The base image is made from Debian's packages where it is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tag=${1:-${THALWEG_TAG:-latest}}

command -v docker >/dev/null || { echo "image.sh: docker is not installed" >&2; exit 1; }
docker info >/dev/null 2>&1 || { echo "image.sh: the docker daemon does not answer" >&2; exit 1; }

"$here/base-image.sh"
binary=${THALWEG_BIN:-}
if [ -z "$binary" ]; then
    (cd "$here/.." && cargo build --release --workspace --bin thalweg)
    binary=${CARGO_TARGET_DIR:-$here/../target}/release/thalweg
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$here/Dockerfile" "$context/"
cp "$binary" "$context/thalweg"
# Debug information makes up most of the file and is of no use in an image.
if command -v strip >/dev/null; then strip --strip-debug "$context/thalweg"; fi
chmod 755 "$context/thalweg"
DOCKER_BUILDKIT=0 docker build --quiet --tag "thalweg:$tag" "$context" >/dev/null
# The host's C library may be newer than the image's: better to hear it here than from a restarting container.
docker run --rm "thalweg:$tag" --version
echo "image thalweg:$tag"
