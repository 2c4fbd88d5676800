#!/bin/sh
# install_test.sh CC [FLAGS...]: what `make install PREFIX=...` puts where, and that examples/complete.c builds against it
# with pkg-config, shared and static, and says what `pawl run` says.
set -eu
build=${PAWL_BUILD:?names the build folder}
model=models/tale-moe-fp8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
fail() {
    echo "install_test: $*" >&2
    exit 1
}

cmake --install "$build" --prefix "$prefix" >"$work/log" || { cat "$work/log" >&2; fail "cmake --install"; }

# Everything that is installed, and nothing else.
soname=$(readlink "$prefix/lib/libpawl.so")
real=$(readlink "$prefix/lib/$soname")
sort >"$work/want" <<EOF
bin/pawl
include/pawl/chat.h
include/pawl/engine.h
include/pawl/pawl.h
include/pawl/status.h
lib/libpawl.a
lib/libpawl.so
lib/$soname
lib/$real
lib/pkgconfig/pawl.pc
EOF
(cd "$prefix" && find . ! -type d | sed 's,^\./,,' | sort) >"$work/got"
diff -u "$work/want" "$work/got" || fail "installed files differ from the list"

# The folder may be moved after the installation: pawl.pc finds itself.
mv "$prefix" "$work/moved"
prefix=$work/moved
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
version=$("$prefix/bin/pawl" --version)
[ "$version" = "pawl $(pkg-config --modversion pawl)" ] || fail "pawl.pc and the program disagree: $version"
case $(pkg-config --cflags pawl) in
*-I*moved*include*) ;;
*) fail "pkg-config --cflags: $(pkg-config --cflags pawl)" ;;
esac

warn='-std=c17 -Wall -Wextra -Werror -pedantic'
"$@" $warn -o "$work/shared" examples/complete.c $(pkg-config --cflags --libs pawl)
prompt='Once upon a time'
"$prefix/bin/pawl" run "$model" -p "$prompt" -n 40 --temp 0 --draft 0 >"$work/run.txt"
[ -s "$work/run.txt" ] || fail "pawl run wrote nothing"
check() { # check NAME COMMAND...
    what=$1
    shift
    "$@" "$model" "$prompt" 40 >"$work/out.txt" 2>"$work/err.txt" || { cat "$work/err.txt" >&2; fail "$what"; }
    cmp "$work/out.txt" "$work/run.txt" || fail "$what says something else than pawl run"
    grep -q 'drafts accepted' "$work/err.txt" || fail "$what: no figures on standard error"
}
check "the shared example" env LD_LIBRARY_PATH="$prefix/lib" "$work/shared"
# An error comes back as a status and a sentence.
if LD_LIBRARY_PATH=$prefix/lib "$work/shared" "$work/nothing" x >"$work/out.txt" 2>"$work/err.txt"; then
    fail "a model that is not there was opened"
fi
grep -q "$work/nothing" "$work/err.txt" || fail "the error does not name the path: $(cat "$work/err.txt")"

# A sanitized library cannot be linked statically.
case "$*" in
*-fsanitize*) echo "install_test: static link left out under a sanitizer" ;;
*)
    "$@" $warn -static -o "$work/static" examples/complete.c $(pkg-config --static --cflags --libs pawl)
    if ldd "$work/static" >/dev/null 2>&1; then fail "the static example needs shared libraries"; fi
    check "the static example" "$work/static"
    ;;
esac
echo "install_test: ok"
