#!/bin/sh
# Writes status.html anew every two seconds, until it is told to end.
#
# usage: keep-status FOLDER
set -eu
cd "$1"
trap 'rm -f .status.new; exit 0' TERM INT
while :; do
    {
        echo "<!DOCTYPE html>"
        echo "<title>Status</title>"
        echo "<link rel=\"stylesheet\" href=\"style.css\">"
        echo "<h1>Status</h1>"
        echo "<p>$(ls ./*.html | wc -l) pages, $(cat ./*.html | wc -c) bytes,"
        echo "kept by process $$ at $(date -u +%H:%M:%S) UTC.</p>"
    } >.status.new
    mv .status.new status.html
    sleep 2 &
    wait $!
done
