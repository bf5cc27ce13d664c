include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK}/eigen)
run("configuration" ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumers/eigen -B ${WORK}/eigen ${compilers}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run("build" ${CMAKE_COMMAND} --build ${WORK}/eigen)
run("program" ${WORK}/eigen/consumer_eigen)
if(NOT output MATCHES "Eigen: 0 wrong")
    message(FATAL_ERROR "the program did not say that all is right:\n${output}")
endif()
