#!/usr/bin/env bash
# Rounds of a real server with two clients over loopback: one on this machine, one on an emulated Raspberry Pi
# Zero 2 W. Each has classes that the other has not, and both must end with the file that the server writes.
#
#   rounds.sh [OPTION...]     options of the server, such as --layers 2 --plan plan.json
#
# Exit code 0: all holds; 1: something does not; 77: skipped, because tools are missing. The cache is that of
# check.sh. TINYTRAIN_PI_MIB is the address space of the emulated client, by default 512.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${TINYTRAIN_PI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tinytrain-pi}
mib=${TINYTRAIN_PI_MIB:-512}

"$here/build.sh" "$(cd "$here/../.." && pwd)" "$cache"
host=$cache/host/bin/python
"$host" -c 'import flwr' 2>/dev/null || "$host" -m pip install --quiet "$(echo "$cache"/wheels/*.whl)[federated]"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
export TINYTRAIN_CACHE=$work/cache

# As a kit does it: compiling runs out of the addresses that the client needs.
echo "kernels for the emulated client: $("$host" -m tinytrain.kit.kernels cortex-a53 "$cache/packages/tinytrain/kernels/compiled")"
"$host" "$here/photos.py" "$work/all" 10
mkdir "$work/pc" "$work/pi"
classes=("$work"/all/*)
mv "${classes[@]:0:2}" "$work/pc"
mv "${classes[@]:2}" "$work/pi"

"$host" -m tinytrain federate server "$work/state" --clients 2 --port 0 "$@" -o "$work/server.out" 2>"$work/said" &
server=$!
until address=$(sed -n 's/.*listening at //p' "$work/said") && [ -n "$address" ]; do
    kill -0 $server || { cat "$work/said" >&2 && exit 1; }
    sleep 0.2
done
"$host" -m tinytrain federate client "$address" "$work/pc" --name pc -o "$work/pc.out" > >(sed 's/^/pc: /') 2>&1 &
pc=$!
"$here/run.sh" "$cache/root" "$cache/packages" $((mib * 1048576)) -P \
    -m tinytrain federate client "$address" "$work/pi" --name pi -o "$work/pi.out" > >(sed 's/^/pi: /') 2>&1 &
pi=$!
while now=$(grep VmHWM "/proc/$pi/status" 2>/dev/null); do peak=$now && sleep 0.2; done
wait $pi $pc $server
cmp "$work/server.out" "$work/pc.out"
cmp "$work/server.out" "$work/pi.out"
echo "all three have the same $(stat -c %s "$work/pi.out") bytes; the emulated client stayed in $mib MiB of address" \
    "space, with the emulator it had $(awk '{ printf "%d", $2 / 1024 }' <<<"$peak") MiB resident"
