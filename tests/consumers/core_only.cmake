include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
build_alone(core_only -DCMAKE_DISABLE_FIND_PACKAGE_Threads=ON)
run("program" ${WORK}/core_only/consumer)
loads_no_engine(${WORK}/core_only/consumer)
