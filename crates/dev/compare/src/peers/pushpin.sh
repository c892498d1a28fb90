# Pushpin, as Debian's package installs it. It alone must be installed: its programs look for each
# other.
set -eu

case $1 in
    prepare)
        version=$(pushpin --version) || {
            echo "not installed (Debian: apt-get install pushpin)" >&2
            exit 1
        }
        echo "Pushpin ${version##* }, all its processes"
        ;;
    start)
        sed -e "s|@FOLDER@|$FOLDER|g" -e "s|@SUBSCRIBE@|$SUBSCRIBE|g" \
            -e "s|@PUBLISH_IP@|${PUBLISH%:*}|g" -e "s|@PUBLISH_PORT@|$PUBLISH_PORT|g" \
            "$HERE/pushpin.conf" >"$FOLDER/pushpin.conf"
        echo "* $ORIGIN" >"$FOLDER/routes"
        printf '%s\n' pushpin --config "$FOLDER/pushpin.conf"
        ;;
esac
