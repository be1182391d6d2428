#!/bin/sh
# with_library.sh LIBRARY COMMAND... - run the command, or skip the test where XLA's library was not fetched.
[ -f "$1" ] || { echo "skipped: $1 is missing (tools/xla_library.sh fetches it)"; exit 77; }
shift
exec "$@"
