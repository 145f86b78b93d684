# Removes from a virtual environment what no component of pvc-prebinder imports: trim.sh DIRECTORY
#
# The official client's models and calls are 120 of its 126 MB. Only its configuration, TLS and authentication are used;
# models and calls are imported lazily (tests/prebinder/test_image.py), so their files are not needed.
set -eu
for client in "$1"/lib/python3*/site-packages/kubernetes/client "$1"/lib/python3*/site-packages/kubernetes/aio/client; do
    find "$client/api" "$client/models" -type f ! -name '__init__*' -delete
done
find "$1"/lib/python3*/site-packages/kubernetes -name '*_test.*' -delete
# Only kubernetes.aio is used. The package itself imports the client that is not asynchronous, with all that it needs:
# a tenth of a second and 6 MB for each process.
: > "$(echo "$1"/lib/python3*/site-packages/kubernetes/__init__.py)"
# The tests of numpy, which the solver's package needs, are 17 of its 73 MB; the solver itself is in its wheel twice.
find "$1"/lib/python3*/site-packages/numpy -type d -name tests -prune -exec rm -r {} +
for library in "$1"/lib/python3*/site-packages/highspy/libhighs.so.1.*; do
    ln -sf "$(basename "$library")" "$(dirname "$library")/libhighs.so.1"
done
# What compilers and type checkers read.
find "$1"/lib/python3*/site-packages \( -name '*.pyi' -o -name '*.a' -o -name '*.h' -o -name '*.hpp' \) -type f -delete
rm -r "$1"/lib/python3*/site-packages/numpy/f2py
