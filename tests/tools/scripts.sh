#!/usr/bin/env bash
# Checks of ./run and tools/ (what they refuse, with which messages and exit codes) and of test programs that are asked
# for nothing. Usage: scripts.sh REPOSITORY TEST_PROGRAM
set -euo pipefail
root=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

# expect CODE TEXT COMMAND...: the command exits with CODE and says TEXT.
expect() {
  local code=$1 text=$2 out rc=0
  shift 2
  out=$("$@" 2>&1) || rc=$?
  if [[ $rc != "$code" || $out != *"$text"* ]]; then
    printf 'FAILED: %s\n  wanted exit %s and "%s", got exit %s and:\n%s\n' "$*" "$code" "$text" "$rc" "$out"
    failed=1
  fi
}

expect 0 "usage: ./run" "$root/run" help
expect 0 "usage: ./run" "$root/run"
expect 2 "there is no command 'tset'" "$root/run" tset
expect 2 "usage: tools/get-glslang" "$root/tools/get-glslang" --what
expect 2 "usage: tools/get-tint" "$root/tools/get-tint" --what
expect 2 "usage: tools/get-dawn" "$root/tools/get-dawn" --what
expect 2 "usage: tools/get-emscripten" "$root/tools/get-emscripten" --what
expect 2 "usage: tools/format" "$root/tools/format" --what

# message CODE TEXT MESSAGE: the hook for messages of commits exits with CODE and says TEXT.
message() {
  printf '%b' "$3" >message.txt
  expect "$1" "$2" "$root/tools/hooks/commit-msg" message.txt
}
message 0 "" 'vulkan: merge barriers of independent ranges\n\nA text of any length.\n'
message 0 "" '# a comment\ncli, models: name what a folder lacks\n# another\n'
message 0 "" "Merge branch 'a'\n"
message 1 "no 'area: verb" 'Merges barriers\n'
message 1 "no 'area: verb" 'vulkan: Merge barriers\n'
message 1 "no 'area: verb" 'vulkan:merge barriers\n'
message 1 "has 73 columns" "a: $(printf 'b%.0s' {1..70})\n"
message 0 "" "a: $(printf 'ü%.0s' {1..69} | sed 's/^ü/u/')\n"
message 1 "ends with a period" 'vulkan: merge barriers.\n'
message 1 "second line is not empty" 'vulkan: merge barriers\nof ranges\n'
message 1 "is empty" '# nothing\n\n'
expect 2 "usage: tools/hooks/commit-msg" "$root/tools/hooks/commit-msg"

# A block of a page is what its command printed; --check compares all but figures.
figures=tree/tools/readme-figures
mkdir -p tree/tools tree/build/bin
cp "$root/tools/readme-figures" tree/tools/
cat >tree/build/bin/etna <<'STUB'
#!/bin/sh
case $1 in
  devices) echo "vulkan:0  A GPU  ${KIND:-discrete}" ;;
  doctor) printf '  round trip  %s us\n  other  1 us\n%s' "$US" "${MORE:+  copy by kernel  2 GB/s
}" ;;
esac
STUB
chmod +x tree/build/bin/etna
printf 'before\n<!-- figures: doctor -->\n<!-- end -->\nafter\n' >tree/README.md
expect 0 "doctor" "$figures" --list
expect 2 "usage: tools/readme-figures" "$figures" --what
expect 1 "no page has a block 'docter'; there are: doctor" "$figures" docter
expect 1 "doctor needs a GPU as vulkan:0" env KIND=software "$figures" doctor
expect 0 "doctor: left as it is" env KIND=software "$figures"
expect 0 "doctor: written" env US=4.5 "$figures"
expect 0 "on an A GPU, 20" grep A tree/README.md
[[ $(sed -n '5,7p;$p' tree/README.md) == '```
  round trip  4.5 us
```
after' ]] || { echo "FAILED: tools/readme-figures wrote"; cat tree/README.md; failed=1; }
expect 0 "its form is up to date" env US=31.25 "$figures" --check
expect 1 "out of date: doctor" env US=31.25 MORE=1 "$figures" --check
mkdir tree/docs && mv tree/README.md tree/docs/page.md && echo text >tree/README.md
expect 0 "doctor" "$figures" --list
expect 0 "doctor: written" env US=5.5 "$figures" doctor
expect 0 "5.5 us" grep "round trip" tree/docs/page.md
mv tree/docs/page.md tree/README.md
sed -i '/<!-- end/d' tree/README.md
expect 1 "markers do not come in pairs" "$figures" --list
expect 0 "program" "$root/tools/readme-figures" --list

# A compiler is new enough if it supports everything the shaders need; else get-glslang looks for another, here in vain.
mkdir -p tree/tools stubs
cp "$root/tools/get-glslang" tree/tools/
cat >stubs/glslangValidator <<'STUB'
#!/bin/sh
for file; do :; done
for known in $KNOWN; do ! grep -q "$known" "$file" || exit 0; done
exit 1
STUB
printf '#!/bin/sh\nexit 1\n' >stubs/apt-get
chmod +x stubs/*
matrices="GL_KHR_cooperative_matrix GL_NV_cooperative_matrix2"
expect 0 "nothing to do" env PATH="$work/stubs:$PATH" KNOWN="$matrices GL_EXT_bfloat16" tree/tools/get-glslang
expect 1 "get-glslang: " env PATH="$work/stubs:$PATH" KNOWN="$matrices" tree/tools/get-glslang
expect 1 "get-glslang: " env PATH="$work/stubs:$PATH" KNOWN="$matrices GL_EXT_bfloat16" tree/tools/get-glslang --force

# What the processes of a run of ctest recorded has to be all tests, each once.
mkdir -p ran
printf '#!/bin/sh\nprintf "Suite.\\n  A  # GetParam() = 1\\n  B\\n  DISABLED_C\\n"\n' >test_stub
chmod +x test_stub
echo "$work/test_stub=stub.0,stub.1" >programs.txt
every=$root/tests/runner/every_test.sh
expect 0 "2 tests in 2 processes" "$every" count programs.txt
install -m 644 test_stub foreign_stub # runs by an emulator only
echo "$work/foreign_stub=stub.0" >foreign.txt
expect 0 "2 tests in 1 processes" env ETNA_EMULATOR="env sh" "$every" count foreign.txt
echo "Suite.A" >ran/stub.0
expect 1 "stub.1 did not run to its end" "$every" ran ran programs.txt
printf '# GPU outputs: 3\n' >ran/stub.1
expect 1 "test_stub: did not run: Suite.B" "$every" ran ran programs.txt
printf 'Suite.A\nSuite.B\n# GPU outputs: 3\n' >ran/stub.1
expect 1 "test_stub: ran more than once: Suite.A" "$every" ran ran programs.txt
printf 'Suite.B\n# GPU outputs: 3\n' >ran/stub.1
printf '# GPU outputs: 4\n' >>ran/stub.0
expect 0 "7 GPU outputs" "$every" ran ran programs.txt
expect 1 "no test was chosen: --gtest_filter=Nothing" "$program" --gtest_filter=Nothing
expect 1 "no test was chosen" env GTEST_TOTAL_SHARDS=1000 GTEST_SHARD_INDEX=999 "$program"

get=$root/tools/get-wikitext2
expect 0 "usage: tools/get-wikitext2" "$get" --help
expect 2 "unknown option --what" "$get" --what
expect 2 "--url needs an address" "$get" --url
expect 1 "cannot download file://$work/none.zip" "$get" --url "file://$work/none.zip" target
echo "not a zip" >broken.zip
expect 1 "is not a whole zip file" "$get" --url "file://$work/broken.zip" target
touch file
expect 1 "is a file; name a folder" "$get" file

zip_of() { # ZIP FOLDER
  python3 -c 'import shutil, sys; shutil.make_archive(sys.argv[1][:-4], "zip", sys.argv[2])' "$1" "$2"
}
if command -v python3 >/dev/null; then
  mkdir -p other/wikitext-2
  echo text >other/wikitext-2/README
  zip_of "$work/other.zip" other
  expect 1 "holds no wiki.train.tokens" "$get" --url "file://$work/other.zip" target
  for split in train valid test; do echo "a b" >other/wikitext-2/wiki.$split.tokens; done
  zip_of "$work/wrong.zip" other
  expect 1 "wiki.train.tokens from file://$work/wrong.zip has the wrong SHA-256 sum" \
    "$get" --url "file://$work/wrong.zip" target
  if [[ -n ${ETNA_DATA:-} && -f ${ETNA_DATA:-}/wiki.train.tokens ]]; then
    mkdir -p real/wikitext-2
    cp "$ETNA_DATA"/wiki.*.tokens real/wikitext-2/
    zip_of "$work/real.zip" real
    [[ ! -e target ]] || { echo "FAILED: a refused download left something behind"; failed=1; }
    expect 0 "target holds WikiText-2" "$get" --url "file://$work/real.zip" target
    cmp "$ETNA_DATA/wiki.valid.tokens" target/wiki.valid.tokens || failed=1
    expect 0 "holds WikiText-2 already" "$get" target
  fi
fi
if compgen -G "$work/.wikitext-2.*" >/dev/null; then
  echo "FAILED: temporary folders are left behind"
  failed=1
fi
exit $failed
