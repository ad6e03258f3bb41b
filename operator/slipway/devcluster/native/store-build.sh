#!/bin/sh
# Unpacks image archives into a containerd root, with a containerd that lives only as long as this script.
#   $1 its configuration   $2... the archives
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
config=$1
shift
containerd --config "$config" &
tries=0
until ctr --address /run/containerd/containerd.sock version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || exit 1
    sleep 0.1
done
for archive in "$@"; do
    ctr --address /run/containerd/containerd.sock --namespace k8s.io images import - <"$archive"
done
kill -TERM $!
wait $! || true
