# Above the library with the engine on threads alone, which needs neither MPI nor Gloo, and above the one with all engines.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
build_alone(convert -DCOMPONENT=convert_threads)
run("program" ${WORK}/convert/consumer)
loads_no_engine(${WORK}/convert/consumer)

set(without_engines)
build_alone(convert -DCOMPONENT=convert)
run("program" ${WORK}/convert/consumer)
