#!/bin/sh
# The first process of a real node, in mount, process, network and host name spaces of the node's own.
# All of the node lives in these spaces: when this process is killed, everything of the node ends with it.
#   $1 the node's folder   $2 its name   $3 a command whose file must stay reachable (the kubelet)
set -eu
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/node /run/containerd /run/netns
mount --bind "$1" /run/node
cd /run/node
mkdir -p disk/containerd disk/kubelet disk/log disk/lib disk/work
# What runs here writes to /var/lib and /var/log; those writes go to the node's own disk.
mount --bind disk/log /var/log
mount -t overlay overlay -o lowerdir=/var/lib,upperdir=disk/lib,workdir=disk/work /var/lib
# A machine that comes back is another one; and none of them is the machine that they all run on.
cat /proc/sys/kernel/random/uuid >/run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
if [ -f /etc/machine-id ]; then
    tr -d '\n-' </proc/sys/kernel/random/uuid >/run/machine-id
    mount --bind /run/machine-id /etc/machine-id
fi
# The kubelet passes mounts on to containers, which needs them shared within the node.
mount --make-rshared /
hostname "$2"
echo 1 >/proc/sys/net/ipv4/ip_forward
test -x "$3"
: >/run/slipway-ready
# Orphans of dead shims become our children; `wait` collects them.
while :; do
    sleep 1000000 &
    wait $! || true
done
