#!/bin/sh
# cuda_sources_compile.sh CXX NVCC FLAGS...: compiles the CUDA sources to PTX, so that a build without kernels for
# Hopper notices where one is broken.
cxx=$1
shift
sources=$(dirname "$0")/../../shaders/sm90
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0 count=0
for source in "$sources"/*.cu; do
  "$@" -ccbin "$cxx" -o "$folder/kernels.ptx" "$source" || { echo "$source does not compile"; failed=1; }
  count=$((count + 1))
done
[ "$count" -gt 5 ] || { echo "the tree was not read"; failed=1; }
exit $failed
