# run(what command...): runs a command, stops with its output if it fails.
function(run what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${what} failed (${result}):\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

set(build_as -G Ninja -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${C} "-DCMAKE_CXX_FLAGS=${FLAGS}")
set(compilers ${build_as} -DCMAKE_BUILD_TYPE=None)

# take_objects(build source): what is built next in that build folder, from that source, takes the objects of the build that is
# tested where both are compiled in the same words, with the build type ${BUILD_TYPE}.
function(take_objects build source)
    set(launcher ${LAUNCHER})
    if(PYTHON)
        list(PREPEND launcher ${PYTHON} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/reuse.py ${BUILD} ${SOURCE} ${build} ${source})
    endif()
    set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${launcher}")
endfunction()

# build_alone(name option...): configures and builds a project of this folder as on a machine without MPI and Gloo.
set(without_engines -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_Gloo=ON)
function(build_alone name)
    file(REMOVE_RECURSE ${WORK}/${name})
    run("configuration" ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumers/${name} -B ${WORK}/${name} ${compilers}
        -DCMAKE_PREFIX_PATH=${WORK}/prefix ${without_engines} ${ARGN})
    run("build" ${CMAKE_COMMAND} --build ${WORK}/${name})
endfunction()

# loads_no_engine(program): stops where a program loads, itself or by a library, what an engine is made of.
function(loads_no_engine program)
    run("ldd" ldd ${program})
    if(output MATCHES "libmpi|ibverbs|libgloo")
        message(FATAL_ERROR "${program} loads what engines are made of:\n${output}")
    endif()
endfunction()
