include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK}/c)
run("configuration" ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumers/c -B ${WORK}/c ${compilers}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run("build" ${CMAKE_COMMAND} --build ${WORK}/c)
run("program" ${WORK}/c/consumer)
if(NOT output MATCHES "after rank 67 comes 131; sums are right")
    message(FATAL_ERROR "the program in C said:\n${output}")
endif()
