#!/usr/bin/env bash
# Installs what the benchmark compares with, from Debian: nginx, HAProxy, Caddy, and wrk for the load.
set -euo pipefail
missing=()
for p in nginx-light:nginx haproxy:haproxy caddy:caddy wrk:wrk; do
  command -v "${p#*:}" >/dev/null || [ -x "/usr/sbin/${p#*:}" ] || missing+=("${p%:*}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
