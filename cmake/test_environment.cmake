# What tests that start MPI programs run in: as root Open MPI wants to be told twice. It keeps memory until the process
# ends, from modules that are unloaded by then, so leaks are looked for in the tests on threads.
set(RANKMESH_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0)
# The same as words of a shell line, for tests that start commands themselves.
list(JOIN RANKMESH_MPI_ENVIRONMENT " " RANKMESH_MPI_ENVIRONMENT_WORDS)

# How the launcher is told that there may be more ranks than cores, and which numbers of ranks are worth starting: those
# of MPICH wait by spinning, so that more than a few on as few cores take minutes, as more do under sanitizers.
set(RANKMESH_OPEN_MPI OFF)
set(RANKMESH_MPIEXEC_FLAGS)
set(RANKMESH_MPI_RANKS 1 2 3)
if(RANKMESH_HAS_MPI)
    execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE rankmesh_mpiexec_version ERROR_QUIET)
    if(rankmesh_mpiexec_version MATCHES "Open MPI|OpenRTE")
        set(RANKMESH_OPEN_MPI ON)
        set(RANKMESH_MPIEXEC_FLAGS --oversubscribe)
        set(RANKMESH_MPI_RANKS 1 2 4)
        if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
            list(APPEND RANKMESH_MPI_RANKS 7 8)
        endif()
    endif()
endif()
list(JOIN RANKMESH_MPIEXEC_FLAGS " " RANKMESH_MPIEXEC_FLAGS_WORDS)
