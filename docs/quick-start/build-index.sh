#!/bin/sh
# Writes index.html with a link to each page of a folder.
#
# usage: build-index FOLDER TITLE
set -eu
cd "$1"
{
    echo "<!DOCTYPE html>"
    echo "<title>$2</title>"
    echo "<link rel=\"stylesheet\" href=\"style.css\">"
    echo "<h1>$2</h1>"
    echo "<ul>"
    for page in *.html; do
        case $page in index.html | status.html) continue ;; esac
        title=$(sed -n 's:.*<title>\(.*\)</title>.*:\1:p' "$page")
        echo "<li><a href=\"$page\">$title</a></li>"
    done
    echo "<li><a href=\"status.html\">Status</a></li>"
    echo "</ul>"
} >.index.new
mv .index.new index.html
echo "index.html lists $(grep -c '<li>' index.html) pages"
