#!/usr/bin/env bash
# From a fresh Debian or Ubuntu machine to a table of verdicts. Nothing may look green because it
# was not there: an environment that could not be made is an error even where its cases would only
# be skipped, and every exit status below reaches the caller.
#
#   ./run_all.sh         set up, build, run the cases labelled quick
#   ./run_all.sh test    set up, build, lint, every test, then the same cases
#   ./run_all.sh setup   set up and build only
#
# Exit status: 0 nothing unexpected; 1 something unexpected; 2 usage; 3 could not do its work.
set -Eeuo pipefail
trap 'printf "run_all.sh: line %s: could not be done\n" "$LINENO" >&2; exit 3' ERR  # 1 says FAIL

readonly environments=(torch-2.8 torch-2.8-te-1.13 torch-2.8-te-2.10 torch-2.11-torchao-0.16 torch-2.11-torchao-0.17 torch-2.15)
readonly packages=(g++ cmake ninja-build git pkg-config libopenmpi-dev openmpi-bin libcli11-dev
  nlohmann-json3-dev libfmt-dev libtomlplusplus-dev libxxhash-dev libpugixml-dev libgtest-dev
  libgmock-dev libbenchmark-dev python3 python3-venv python3-dev)
readonly test_packages=(clang-format clang-tidy shellcheck)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${RESUMECHECK_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/resumecheck}
started=$SECONDS
unmade=()

say() { printf '[%4ds] %s\n' "$((SECONDS - started))" "$*"; }

fail() {
  printf 'run_all.sh: %s\n' "$*" >&2
  exit 3
}

# quietly WHAT LOG COMMAND...: the log is shown only where the command fails.
quietly() {
  local what=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 && return 0
  tail -n 40 "$log" >&2
  printf 'run_all.sh: %s failed; all of it is in %s\n' "$what" "$log" >&2
  return 1
}

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# A newer CMake, Ninja, Python or git than the system's serves as well.
is_there() {
  case $1 in
    cmake | git | python3 | g++) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    clang-format | clang-tidy | shellcheck) command -v "$1" >/dev/null ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    python3-dev) python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ;;
    *) is_installed "$1" ;;
  esac
}

install_packages() {
  local missing=() package as_root=()
  for package in "$@"; do
    is_there "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say 'system packages: all there'
    return
  fi
  if [[ $(id -u) != 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      printf 'run_all.sh: these system packages are missing; run this once, then ./run_all.sh again:\n' >&2
      printf '  sudo apt-get install -y %s\n' "${missing[*]}" >&2
      exit 3
    fi
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || fail "no apt-get here; install what stands for: ${missing[*]}"
  say "system packages: installing ${missing[*]}"
  quietly 'apt-get update' "$root/out/setup/apt-update.log" "${as_root[@]}" apt-get update || exit 3
  quietly 'apt-get install' "$root/out/setup/apt-install.log" "${as_root[@]}" \
    env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" || exit 3
}

# The Python that runs the project's own tools, named by the hash of its lock. It counts as made
# only with its mark, which is written last.
make_tools_environment() {
  local lock=$root/tools/requirements.lock digest
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "python3 is $(python3 -V 2>&1), and 3.10 or later is needed; put one on PATH"
  digest=$(sha256sum "$lock")
  tools=$cache/tools-${digest:0:16}
  mkdir -p "$cache"
  exec {held}>"$tools.lock"
  flock "$held"
  if [[ -e $tools/complete ]] && "$tools/bin/python" -c '' 2>/dev/null; then
    say "tools environment: made already"
  else
    say "tools environment: making $tools"
    rm -rf "$tools"
    quietly 'making a Python environment' "$root/out/setup/tools-venv.log" python3 -m venv "$tools" || exit 3
    quietly 'installing tools/requirements.lock' "$root/out/setup/tools-pip.log" \
      "$tools/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$lock" || exit 3
    : >"$tools/complete"
  fi
  exec {held}>&-
}

make_environments() {
  local name
  for name in "${environments[@]}"; do
    if "$tools/bin/python" "$root/tools/environments" make "$name" >/dev/null; then
      say "environment $name: ready"
    else
      say "environment $name: ERROR, could not be made"
      unmade+=("$name")
    fi
  done
}

choose_preset() {
  if [[ -n ${RESUMECHECK_PRESET:-} ]]; then
    printf '%s' "$RESUMECHECK_PRESET"
  elif [[ ${CI:-} == true ]]; then
    printf ci
  elif command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
    printf cuda
  else
    printf cpu
  fi
}

# build TARGET...: none is everything.
build() {
  local preset
  preset=$(choose_preset)
  if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  say "building (preset $preset)"
  (cd "$root" && quietly 'configuring' "$root/out/setup/configure.log" \
    cmake --preset "$preset" -DRESUMECHECK_TOOLS_PYTHON="$tools/bin/python") || exit 3
  quietly 'building' "$root/out/setup/build.log" cmake --build "$root/build" ${1:+--target "$@"} || exit 3
}

# Devices are used where the build and the machine have them.
run_cases() {
  local options=(--out "$root/out") name status=0
  for name in "${environments[@]}"; do
    options+=(--require "$name")
  done
  say 'running the cases labelled quick'
  (cd "$root" && build/resumecheck run "${options[@]}") || status=$?
  return "$status"
}

run_tests() {
  local status=0
  say 'running the tests'
  mkdir -p "$root/out"
  (cd "$root" && ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" \
    --output-junit "$root/out/tests.xml") || status=$?
  return "$status"
}

# worse A B: 1 outranks every other status, any of them outranks 0.
worse() {
  if (($1 == 1 || $2 == 1)); then
    printf 1
  elif (($1 != 0)); then
    printf '%s' "$1"
  else
    printf '%s' "$2"
  fi
}

in_words() {
  case $1 in
    0) printf ok ;;
    1) printf 'something unexpected' ;;
    3) printf 'could not do its work' ;;
    77) printf 'everything was skipped' ;;
    *) printf 'status %s' "$1" ;;
  esac
}

main() {
  local mode=${1:-run} status=0 cases=0 lint=0 tests=0
  case $mode in
    run | setup) install_packages "${packages[@]}" ;;
    test) install_packages "${packages[@]}" "${test_packages[@]}" ;;
    *)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
  make_tools_environment
  make_environments
  if [[ $mode == test ]]; then
    build
    say 'linting'
    "$root/tools/lint" || lint=1
    run_tests || tests=1
    status=$(worse "$lint" "$tests")
  else
    build resumecheck resumecheck-mpi
  fi
  if [[ $mode != setup ]]; then
    run_cases || cases=$?
    status=$(worse "$status" "$cases")
  fi
  ((${#unmade[@]} == 0)) || status=$(worse "$status" 3)

  printf '\n'
  if [[ $mode == test ]]; then
    printf 'lint     %s\ntests    %s   %s\n' "$(in_words "$lint")" "$(in_words "$tests")" "$root/out/tests.xml"
  fi
  if [[ $mode != setup ]]; then
    printf 'cases    %s\nresults  %s\njunit    %s\n' \
      "$(in_words "$cases")" "$root/out/results.jsonl" "$root/out/junit.xml"
  fi
  ((${#unmade[@]} == 0)) || printf 'ERROR    not made: %s\n' "${unmade[*]}"
  say "done, exit status $status"
  exit "$status"
}

main "$@"
