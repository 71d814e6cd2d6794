# shellcheck shell=bash
# Shared by the scripts: arguments, messages, and everything that must work before there is a Python. A script sources
# it first. From then on the shell is strict and in the root of the repository. --help prints the comment at the
# script's head.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1-} in
  -h | --help)
    sed '1d; /^#/!Q; s/^# \{0,1\}//' "scripts/${0##*/}"
    exit
    ;;
esac

say() { printf '==> %s\n' "$*"; }

die() { # TEXT [STATUS]
  printf 'fiveway: %s\n' "$1" >&2
  exit "${2:-1}"
}

# Wrong arguments: exit status 2.
refuse() { die "$1" 2; }

# takes "WORD ..." ARG...: refuse arguments other than these words.
takes() {
  local argument words=$1
  for argument in "${@:2}"; do
    [[ " $words " == *" $argument "* ]] || refuse "unknown argument $argument: choose from --help${words:+ $words}"
  done
}

# Debian's and Ubuntu's server images have a Python. scripts/engine installs it on other machines.
need_python() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || die "Python 3.10 or newer is not here: apt-get install python3"
}

# host MODULE ARG...: the logic of a verb, in scripts/host.
host() {
  need_python
  python3 -m "scripts.host.$1" "${@:2}"
}

# Run one noisy step; its output is shown only when it fails.
run() {
  local log
  log=$("$@" 2>&1) || { tail -n 40 <<<"$log" >&2 && die "failed: $*"; }
}

export DEBIAN_FRONTEND=noninteractive # apt asks nothing

apt_install() { # PACKAGE...
  run apt-get -q update
  run apt-get -q install -y --no-install-recommends "$@"
}

# setting NAME DEFAULT: the environment first, then .env, then the default: the order Compose uses.
setting() {
  local value=${!1-}
  [ -n "${!1+set}" ] || [ ! -f .env ] || value=$(host machine "$1")
  printf '%s' "${value:-$2}"
}

readonly COMPOSE_MIN=2.20 # `include` with several paths

os_id() { (. /etc/os-release && echo "${ID}-${VERSION_ID:-none}"); }

engine_answers() { docker info >/dev/null 2>&1; }

compose_works() {
  local version
  version=$(docker compose version --short 2>/dev/null) || return 1
  printf '%s\n%s\n' "$COMPOSE_MIN" "${version#v}" | sort -V -C && docker buildx version >/dev/null 2>&1
}

# debian_mirror SUITE: where this Debian's apt gets SUITE from.
debian_mirror() {
  local mirror
  # shellcheck disable=SC2016  # apt's own format strings
  mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^\(stable\|$1\) //p" | head -n 1)
  [ -n "$mirror" ] || die "apt has no source for Debian itself: put $1 main back into /etc/apt/sources.list.d, then run this again"
  echo "$mirror"
}

# 0 where a display controller of NVIDIA's is on the PCI bus, driver or not.
nvidia_on_pci() {
  local device
  for device in /sys/bus/pci/devices/*; do
    [ "$(cat "$device/vendor" 2>/dev/null)" != 0x10de ] || [[ $(cat "$device/class" 2>/dev/null) != 0x03* ]] || return 0
  done
  return 1
}

# Builds get the host's CA bundle where the host trusts a private CA (company proxies), as a build secret.
find_ca_bundle() {
  local bundle
  bundle=$(setting CA_BUNDLE "${SSL_CERT_FILE:-${REQUESTS_CA_BUNDLE:-${CURL_CA_BUNDLE:-}}}")
  if [ -z "$bundle" ] && compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    bundle=/etc/ssl/certs/ca-certificates.crt
  fi
  if [ -n "$bundle" ]; then
    [ -r "$bundle" ] || die "the CA bundle $bundle cannot be read: set CA_BUNDLE to a readable PEM file"
    export CA_BUNDLE=$bundle
  fi
}

# build_target NAME: the image of a target that is no service.
build_target() {
  run docker build --secret "id=ca,src=${CA_BUNDLE:-/dev/null}" --target "$1" --tag "fiveway-$1:local" .
}

# Whether Compose builds the images or pulls those of a release, by default of this checkout's: sets `get_images`.
know_registry() {
  local registry
  registry=$(setting IMAGE_REGISTRY "")
  [[ -z "$registry" || "$registry" == */ ]] || refuse "IMAGE_REGISTRY=$registry has no / at its end: write $registry/"
  get_images=build
  [ -n "$registry" ] || return 0
  get_images=pull
  IMAGE_TAG=$(setting IMAGE_TAG "v$(cat VERSION)")
  export IMAGE_TAG
}

# Facts about this machine for Compose. Every script calls this before it calls Compose.
know_machine() {
  find_ca_bundle
  know_registry
}

# The servers that a study asks and that a plain `up` leaves out. tests/unit/test_scripts_images.py compares this with bench/studies.
servers_of() { # STUDY
  case $1 in
    base) echo echo-http echo-grpc ;;
    distance) echo distance echo-http echo-grpc ;;
    encodings) echo seldon-http seldon-grpc ;;
    format) echo distance ;;
    frames) echo frames ;;
    peers) echo litserve bentoml mlserver ray-serve ;;
    shm) echo onnxruntime ;;
  esac
}

# The profile that they are in.
profile_of() { # STUDY
  case $1 in
    peers | shm) echo peers ;;
    *) echo transport ;;
  esac
}

# The start of scripts/bench and scripts/compare: the image of this checkout, and the folder of the results.
ready_bench() {
  engine_answers || die "no Docker engine is running: start the stack first (./scripts/up)"
  know_machine
  RESULTS=$(host machine results)
  export RESULTS
  run docker compose --profile bench "$get_images" --quiet bench
}
