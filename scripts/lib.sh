# shellcheck shell=bash
# What the verbs share: how they speak, how they run a noisy step, how they read a setting.

say() { printf '==> %s\n' "$*"; }

die() {
  printf 'fiveway: %s\n' "$*" >&2
  exit 1
}

# Run one noisy step; its output is shown only when it fails.
run() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    die "failed: $*"
  fi
  rm -f "$log"
}

# setting NAME DEFAULT: the environment first, then .env, then the default: the order Compose uses.
setting() {
  local value=${!1:-}
  [ -n "$value" ] || [ ! -f .env ] || value=$(sed -n "s/^$1=//p" .env | tail -n 1)
  printf '%s' "${value:-$2}"
}

quoted() { # TEXT: as a JSON string; null when it is empty
  [ -n "$1" ] || {
    printf null
    return
  }
  local text=${1//\\/\\\\}
  printf '"%s"' "$(printf '%s' "${text//\"/\\\"}" | tr -d '[:cntrl:]')"
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

# In GB, what the engine holds after a first build, build cache included, with room to spare. cpu: docs/budgets.md has the measured size.
# gpu: an estimate until it has been measured: those 15, Triton's image (15.5 GB unpacked: github.com/triton-inference-server/server/issues/7474, and
# about half of that again while it is pulled), and PyTorch with CUDA in two images and in the build cache.
disk_needed_gb() { if [ "$(setting ACCELERATOR cpu)" = gpu ]; then echo 60; else echo 15; fi; }

# The folder where the engine's data is, or would be; the nearest one that is there.
docker_root() {
  local root
  root=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null) || root=
  root=${root:-/var/lib/docker}
  while [ ! -d "$root" ]; do root=$(dirname "$root"); done
  echo "$root"
}

disk_free_gb() { df --output=avail -BG "$1" | tail -n 1 | tr -dc 0-9; }

# port_taken SERVICE PORT: by another program; a port is ours when our own service has it.
port_taken() {
  local address
  [ -z "$(docker compose ps --quiet --status running "$1" 2>/dev/null)" ] || return 1
  address=$(setting BIND_ADDRESS 127.0.0.1)
  [ "$address" != 0.0.0.0 ] || address=127.0.0.1
  (exec 3<>"/dev/tcp/$address/$2") 2>/dev/null
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

# Docker refuses a CPU limit above what its machine has. Asked of the engine: nproc would answer for this shell (OMP_NUM_THREADS, cpusets).
fit_cpus() {
  if [ -z "$(setting CPUS "")" ] && [ "$(docker info --format '{{.NCPU}}')" = 1 ]; then export CPUS=1; fi
}

# What Compose must know of this machine; every verb calls it before it calls Compose.
know_machine() {
  find_ca_bundle
  fit_cpus
}

# What scripts/bench and scripts/compare begin with: the image of the checkout as it is, and the folder of the results.
ready_bench() {
  docker info >/dev/null 2>&1 || die "no Docker engine is running: start the stack first (./scripts/up)"
  know_machine
  RESULTS=$(cd compose && realpath --canonicalize-missing "$(setting RESULTS ../results)") # as Compose reads it
  mkdir -p "$RESULTS" || die "the folder for results cannot be made: set RESULTS to one that can"
  export RESULTS
  run docker compose --profile bench build --quiet bench
}
