include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK}/prefix)
run("installation" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
