include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
build_alone(threads_only)
run("program" ${WORK}/threads_only/consumer)
loads_no_engine(${WORK}/threads_only/consumer)
