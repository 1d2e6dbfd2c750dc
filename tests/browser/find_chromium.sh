#!/bin/sh
# Prints where a chromium is: the one that TECU_CHROMIUM names, or Debian's, which is installed if this user may.
for name in "${TECU_CHROMIUM:-}" chromium chromium-browser; do
    if [ -n "$name" ] && command -v "$name"; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # Where there is no network apt-get may wait for it for long.
    install="timeout 180 apt-get install -y --no-install-recommends chromium"
    { $install || { timeout 60 apt-get update && $install; }; } >&2
    command -v chromium && exit 0
fi
exit 1
