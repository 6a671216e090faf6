#!/bin/bash
# SPDX-FileCopyrightText: 2026 The gradsync authors
# SPDX-License-Identifier: Apache-2.0

# Runs a command beside hosts: network namespaces with names and addresses of their own, joined by a switch. Needs no privileges where the
# system lets users have namespaces, and leaves nothing behind, as a namespace ends with the last process in it.
#
#     hosts.sh 2 25mbit command …        # host0 and host1, each of which sends 25 Mbit/s
#
# The hosts' addresses are 10.77.0.1, 10.77.0.2, … and fd77::1, fd77::2, … The command runs on the switch, and finds
#     GRADSYNC_ON      a program: `$GRADSYNC_ON host1 command …` runs the command there; MPI's launchers take it for ssh
#     GRADSYNC_CUT     another: `$GRADSYNC_CUT host1` takes the host off the switch
#     GRADSYNC_CLEAR   ends whatever still runs on the hosts: a launcher may wait for ever for one that it has lost
#     GRADSYNC_NO_HOSTS   set, instead of these, where hosts cannot be made: why
set -u
PATH=$PATH:/usr/sbin:/sbin

if [[ ${1:-} != --inside ]]; then
  why=$( (unshare --net --uts --mount ip link add up type veth peer name down) 2>&1) && exec unshare --net --uts --mount "$0" --inside "$@"
  (unshare --user --map-root-user --net --uts --mount ip link add up type veth peer name down) > /dev/null 2>&1 &&
    exec unshare --user --map-root-user --net --uts --mount "$0" --inside "$@"
  shift 2
  GRADSYNC_NO_HOSTS="no network namespaces can be made: $why" exec "$@"
fi

count=$2 rate=$3
shift 3
folder=$(mktemp -d)
leave() {
  [[ -x $folder/clear ]] && "$folder/clear"
  kill $(cat "$folder"/host[0-9]*) 2> /dev/null
  rm -rf "$folder"
}
trap leave EXIT

prepare() (
  set -e
  echo '127.0.0.1 localhost' > "$folder/hosts"
  for ((i = 0; i < count; ++i)); do printf '10.77.0.%d host%d\nfd77::%d host%d\n' $((i + 1)) $i $((i + 1)) $i >> "$folder/hosts"; done
  mount --bind "$folder/hosts" /etc/hosts
  ip link add switch type bridge
  ip link set switch up
  for ((i = 0; i < count; ++i)); do
    unshare --net --uts sh -c "hostname host$i && echo up > $folder/up$i && exec sleep 1000" &
    host=$!
    echo "$host" > "$folder/host$i"
    while [[ ! -s $folder/up$i ]]; do
      kill -0 "$host"
      sleep 0.01
    done
    readlink "/proc/$host/ns/net" >> "$folder/networks"
    ip link add "port$i" type veth peer name eth0 netns "$host"
    ip link set "port$i" master switch up
    nsenter -t "$host" --net sh -ec "
      ip link set lo up
      ip addr add 10.77.0.$((i + 1))/24 dev eth0
      ip -6 addr add fd77::$((i + 1))/64 dev eth0 nodad
      ip link set eth0 up
      tc qdisc add dev eth0 root tbf rate $rate burst 64kb latency 200ms"
  done
  # Launchers of MPI put options before the host's name, and the whole command into one word or several.
  cat > "$folder/on" << END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\$(cat "$folder/\$1") && shift && exec nsenter -t "\$host" --net --uts sh -c "\$*"
END
  cat > "$folder/cut" << END
#!/bin/bash
exec ip link set "port\${1#host}" down
END
  cat > "$folder/clear" << END
#!/bin/bash
# What is in one of their namespaces, other than the processes that keep these.
for process in /proc/[0-9]*; do
  number=\${process#/proc/}
  network=\$(readlink "\$process/ns/net") && [[ -n \$network ]] && grep -qxF "\$network" "$folder/networks" &&
    ! grep -qxF "\$number" "$folder"/host[0-9]* && kill -KILL "\$number"
done 2> /dev/null
true
END
  chmod +x "$folder/on" "$folder/cut" "$folder/clear"
)

prepare > "$folder/said" 2>&1
if (($? != 0)); then
  export GRADSYNC_NO_HOSTS="hosts cannot be joined: $(tail -n 1 "$folder/said")"
else
  export GRADSYNC_ON="$folder/on" GRADSYNC_CUT="$folder/cut" GRADSYNC_CLEAR="$folder/clear"
fi
"$@"
