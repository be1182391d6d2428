#!/bin/sh
# manual_pages.sh - every command has a manual page with as many options as its help page.
for name in $("$LOCKSTEP" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    options=$("$LOCKSTEP" help "$name" | grep -c '^  -')
    paragraphs=$("$LOCKSTEP" help --man "$name" | grep -c '^\.TP')
    [ "$options" = "$paragraphs" ] || { echo "$name: $options options, $paragraphs in its manual page"; exit 1; }
done
echo all
