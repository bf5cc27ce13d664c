# need PACKAGE...: installs the Debian packages that are missing, as root or with sudo; otherwise it says how, and goes on.
need() {
    local missing=() package
    if ! command -v dpkg-query >/dev/null; then
        echo "this is no Debian: please see that you have what these packages hold: $*"
        return 0
    fi
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            echo "missing packages; to install them: apt-get install ${missing[*]}"
            return 0
        fi
        as_root=(sudo -n)
    fi
    echo "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
            >/dev/null || echo "could not install ${missing[*]}; going on with what is there"
}

build_packages=(g++ cmake ninja-build libcli11-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libopenmpi-dev openmpi-bin libgloo-dev libhiredis-dev libpmix-dev pkg-config)
test_packages=(libgtest-dev librapidcheck-dev libdlpack-dev libbenchmark-dev clang-16 libclang-rt-16-dev libmpich-dev mpich redis-server slurm-wlm munge iproute2 util-linux)

# Open MPI wants to hear twice that it may run as root; more ranks than cores are wanted here.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
