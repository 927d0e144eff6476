#!/bin/bash
# The first process of one host of the lab: its own file systems, then its own daemons.
# host.sh STATE NAME cluster|remote; killing it kills the host, as pulling the plug does.
set -u
STATE=$1 NAME=$2 ROLE=$3
own=$STATE/hosts/$NAME/fs log=$STATE/hosts/$NAME/log
mount --make-rprivate /
mount -t tmpfs -o mode=755,size=64m tmpfs /run
mount -t tmpfs -o mode=1777,size=1g tmpfs /dev/shm
mkdir -p /run/crm /run/lock /run/resource-agents
chown hacluster:haclient /run/crm && chmod 750 /run/crm
mkdir -p "$own"/var/lib/pacemaker/{blackbox,cib,cores,pengine} "$own"/var/log/pacemaker/bundles \
    "$own"/var/lib/corosync "$own"/etc/corosync "$own"/etc/pacemaker
install -g haclient -m 640 "$STATE/authkey" "$own/etc/pacemaker/authkey"
chown -R hacluster:haclient "$own/var/lib/pacemaker" "$own/var/log/pacemaker"
for folder in /var/lib/pacemaker /var/log/pacemaker /var/lib/corosync /etc/corosync /etc/pacemaker; do
    mkdir -p "$folder" && mount --bind "$own$folder" "$folder"
done
# The lab's fence agents stand where Pacemaker looks for agents, for these processes alone.
mount -t overlay overlay -o "lowerdir=$STATE/sbin:/usr/sbin" /usr/sbin
mount -t overlay overlay -o "lowerdir=$STATE/ocf:/usr/lib/ocf/resource.d" /usr/lib/ocf/resource.d
hostname "$NAME"
export PCMK_logfile=$log/pacemaker.log PCMK_logfacility=none PCMK_logpriority=notice PCMK_fail_fast=no
export PCMK_ipc_buffer=1048576 HA_LOGFACILITY=none
if [ "$ROLE" = cluster ]; then
    corosync -f >"$log/corosync.out" 2>&1 &
    for _ in $(seq 100); do
        corosync-cmapctl -g runtime.config.totem.token >/dev/null 2>&1 && break
        sleep 0.1
    done
    pacemakerd >"$log/pacemakerd.out" 2>&1 &
else
    PCMK_remote_port=3121 "$STATE/bin/pacemaker-remoted" >"$log/remoted.out" 2>&1 &
fi
# Orphans are this process's children: bash collects them while it sleeps.
while :; do
    sleep 3600 &
    wait $!
done
