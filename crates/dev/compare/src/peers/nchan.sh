# nchan: a module of nginx, from Debian's packages.
#
# An installed nginx with the module is used where it is; otherwise the two packages are fetched and
# unpacked below the cache, which needs neither root nor changes to the machine.
set -eu
nginx=usr/sbin/nginx module=usr/lib/nginx/modules/ngx_nchan_module.so

# Where both are.
root() {
    for root in / "$CACHE/"; do
        if [ -f "$root$nginx" ] && [ -f "$root$module" ]; then echo "$root" && return; fi
    done
    return 1
}

fetch() {
    cd "$CACHE" &&
        apt-get download nginx libnginx-mod-nchan >&2 &&
        for package in ./*.deb; do dpkg-deb -x "$package" . || return; done
}

# The version comes from the name of the fetched file, or from the package manager: the module does
# not report it.
version() {
    fetched=$(cd "$CACHE" && ls | sed -n 's/^libnginx-mod-nchan_\([^_]*\)_.*/\1/p' | head -n 1)
    [ -z "$fetched" ] || { echo "$fetched" && return; }
    dpkg-query -W -f '${Version}\n' libnginx-mod-nchan
}

# `1%3a1.3.6+dfsg-2` is `1.3.6` of its authors.
upstream() { sed -e 's/%3a/:/' -e 's/^[^:]*://' -e 's/[+-].*//'; }

case $1 in
    upstream) echo "$2" | upstream ;;
    prepare)
        root >/dev/null || (fetch) || {
            printf "cannot fetch Debian's packages %s\n" >&2 \
                "(is this Debian, and did \`apt-get update\` run?)"
            exit 1
        }
        nginx_version=$("$(root)$nginx" -v 2>&1)
        version=$(version 2>/dev/null | upstream)
        echo "nchan${version:+ $version} (nginx ${nginx_version##*/}, 1 worker)"
        ;;
    start)
        listen="listen $SUBSCRIBE backlog=4096;"
        [ -z "$CERTIFICATE" ] || listen="listen $SUBSCRIBE ssl backlog=4096; listen $PUBLISH; \
ssl_certificate $CERTIFICATE; ssl_certificate_key $KEY; ssl_protocols TLSv1.2 TLSv1.3;"
        sed -e "s|@MODULE@|$(root)$module|g" -e "s|@FOLDER@|$FOLDER|g" \
            -e "s|@LISTEN@|$listen|g" -e "s|@DESCRIPTORS@|$DESCRIPTORS|g" \
            "$HERE/nchan.conf" >"$FOLDER/nginx.conf"
        printf '%s\n' "$(root)$nginx" -p "$FOLDER" -c "$FOLDER/nginx.conf" \
            -e "$FOLDER/error.log"
        ;;
esac
