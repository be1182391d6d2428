#!/bin/sh
# profile_signals.sh - signals to `lockstep profile` reach the program, and its exit code comes back.
program='
import signal, sys
signal.alarm(60)
for name in ("TERM", "INT", "HUP", "USR1"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, frame: sys.exit(7))
open("cli_profile_ready", "w").close()
while True:
    signal.pause()
'
for name in TERM INT HUP USR1; do
    rm -f cli_profile_ready
    "$LOCKSTEP" profile -o cli_profile_signals python3 -c "$program" 2>/dev/null &
    while [ ! -e cli_profile_ready ]; do sleep 0.05; done
    kill -$name $!
    wait $!
    echo $name $?
done
rm -f cli_profile_ready
