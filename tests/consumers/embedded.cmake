include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK}/embedded)
# What it compiles in the words of the recipe, which has just been built, it takes from there.
set(recipe ${WORK}/recipe/source)
if(PYTHON)
    set(ENV{CMAKE_CXX_COMPILER_LAUNCHER}
        "${PYTHON};${CMAKE_CURRENT_LIST_DIR}/reuse.py;${recipe}/build;${recipe};${WORK}/embedded/_deps/rankmesh-build;${SOURCE}")
endif()
run("configuration" ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumers/embedded -B ${WORK}/embedded ${compilers}
    "-DCMAKE_CXX_FLAGS=${FLAGS} ${recipe_flags}" -DRANKMESH_SOURCE=${SOURCE} -DRANKMESH_GLOO=OFF -DRANKMESH_NCCL=OFF
    -DRANKMESH_REDIS=OFF -DRANKMESH_PMIX=OFF)
run("build" ${CMAKE_COMMAND} --build ${WORK}/embedded --target core threads)
string(REGEX MATCHALL "reused " reused "${output}")
list(LENGTH reused count)
message(STATUS "${count} objects are those of the recipe")
run("program on the core" ${WORK}/embedded/core)
run("program on threads" ${WORK}/embedded/threads)
run("ldd" ldd ${WORK}/embedded/core)
if(output MATCHES "libmpi")
    message(FATAL_ERROR "a program on rankmesh::core loads MPI:\n${output}")
endif()
