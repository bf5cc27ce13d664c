# What tests that start MPI programs run in: as root Open MPI wants to be told twice. It keeps memory until the process
# ends, from modules that are unloaded by then, so leaks are looked for in the tests on threads.
set(RANKMESH_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0)
# The same as words of a shell line, for tests that start commands themselves.
list(JOIN RANKMESH_MPI_ENVIRONMENT " " RANKMESH_MPI_ENVIRONMENT_WORDS)
