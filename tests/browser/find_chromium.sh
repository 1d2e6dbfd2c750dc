#!/bin/sh
# Prints where a chromium is: the one that TECU_CHROMIUM names, or Debian's, which is installed if this user may.
for name in "${TECU_CHROMIUM:-}" chromium chromium-browser; do
    if [ -n "$name" ] && command -v "$name"; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get install -y --no-install-recommends chromium ||
        { apt-get update && apt-get install -y --no-install-recommends chromium; }; } >&2
    command -v chromium && exit 0
fi
exit 1
