#!/usr/bin/env bash
# base-image.sh: makes the image debian:bookworm-slim from Debian's own packages, where no registry can be asked for it.
#
# Does nothing when the tag is there. Needs root, docker and debootstrap (installed from apt when missing). The mirror is the one this machine's
# apt uses; DEBIAN_MIRROR overrides it.
set -euo pipefail

tag=debian:bookworm-slim
suite=bookworm
if docker image inspect "$tag" >/dev/null 2>&1; then
    echo "base image $tag: present"
    exit 0
fi

[ "$(id -u)" = 0 ] || exec sudo -E "$0" "$@"
command -v debootstrap >/dev/null || { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq debootstrap; }

# The first Debian archive apt knows (security and vendor archives have other paths), else the public default.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1 || true)}
mirror=${mirror:-http://deb.debian.org/debian}

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
# ca-certificates is not in the minimal set and the image needs nothing else beyond it.
debootstrap --variant=minbase --include=ca-certificates "$suite" "$root/fs" "$mirror" >"$root/log" 2>&1 || {
    echo "base-image.sh: debootstrap from $mirror failed" >&2
    tail -n 20 "$root/log" >&2
    exit 1
}
rm -rf "$root"/fs/var/cache/apt/archives/*.deb "$root"/fs/var/lib/apt/lists/* \
    "$root"/fs/usr/share/{doc,man,info,locale}/*
tar -C "$root/fs" -c . | docker import --change 'CMD ["bash"]' - "$tag" >/dev/null
echo "base image $tag: built from $mirror"
