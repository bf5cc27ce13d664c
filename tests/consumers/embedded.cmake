include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK}/embedded)
run("configuration" ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumers/embedded -B ${WORK}/embedded ${compilers}
    -DRANKMESH_SOURCE=${SOURCE} -DRANKMESH_NCCL=${HAS_NCCL} -DRANKMESH_NCCL_INCLUDE=${NCCL_INCLUDE}
    -DRANKMESH_CUDA_INCLUDE=${CUDA_INCLUDE})
run("build" ${CMAKE_COMMAND} --build ${WORK}/embedded)
run("program on the core" ${WORK}/embedded/core)
run("program on threads" ${WORK}/embedded/threads)
run("ldd" ldd ${WORK}/embedded/core)
if(output MATCHES "libmpi")
    message(FATAL_ERROR "a program on rankmesh::core loads MPI:\n${output}")
endif()
