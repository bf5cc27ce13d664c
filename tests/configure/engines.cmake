# On a machine that lacks the libraries of the engines: one that was asked for is an error that says how to get it, and one that
# is only welcome is named as left out.
file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/old/nccl.h "#define NCCL_VERSION_CODE 22703\n")
file(WRITE ${WORK}/old/cuda_runtime.h "")
set(hidden -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DRANKMESH_HIREDIS_LIBRARY=OFF -DRANKMESH_NCCL_INCLUDE=${WORK}/old
           -DRANKMESH_CUDA_INCLUDE=${WORK}/old)
set(ENV{PKG_CONFIG_LIBDIR} ${WORK})

# configure(setting...): sets `result`, and `output` with single spaces, since CMake breaks the lines of errors.
function(configure)
    execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja -DCMAKE_CXX_COMPILER=${CXX}
                            -DCMAKE_C_COMPILER=${C} -DRANKMESH_CLI=OFF -DRANKMESH_TESTS=OFF ${hidden} ${ARGN}
                    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    string(REGEX REPLACE "[ \n]+" " " output "${output}")
    set(result ${result} PARENT_SCOPE)
    set(output "${output}" PARENT_SCOPE)
endfunction()
# expect(text): fails unless the output has it.
function(expect text)
    string(FIND "${output}" "${text}" at)
    if(at EQUAL -1)
        message(SEND_ERROR "'${text}' is not in:\n${output}")
    endif()
endfunction()

set(MPI "MPI of 3.1 or later: install libopenmpi-dev and openmpi-bin, or another MPI")
set(GLOO "Gloo: install libgloo-dev, or set Gloo_DIR to the folder of its GlooConfig.cmake")
set(PMIX "pkg-config package pmix: install libpmix-dev and pkg-config")
set(REDIS "hiredis: install libhiredis-dev")
set(NCCL "nccl.h of 2.28.9 or later with cuda_runtime.h: run ./test, which fetches both, or set RANKMESH_NCCL_INCLUDE and RANKMESH_CUDA_INCLUDE to their folders")
# What lies in Gloo is asked for where there is a Gloo, if this machine has one.
set(engines MPI NCCL)
configure(-DRANKMESH_MPI=OFF -DRANKMESH_PMIX=OFF -DRANKMESH_REDIS=OFF -DRANKMESH_NCCL=OFF)
if(output MATCHES "engines threads, gloo;")
    list(APPEND engines PMIX REDIS)
endif()
foreach(engine ${engines} GLOO)
    set(settings)
    foreach(other MPI GLOO PMIX REDIS NCCL)
        list(APPEND settings -DRANKMESH_${other}=AUTO)
    endforeach()
    if(engine STREQUAL "GLOO")
        list(APPEND hidden -DCMAKE_DISABLE_FIND_PACKAGE_Gloo=ON)
    endif()
    configure(${settings} -DRANKMESH_${engine}=ON)
    expect("rankmesh: RANKMESH_${engine}=ON, but there is no ${${engine}}, or set RANKMESH_${engine}=OFF")
    if(result EQUAL 0)
        message(SEND_ERROR "${engine} is missing, and configuring does not fail")
    endif()
endforeach()
configure(${settings} -DRANKMESH_REDIS=ON)
expect("rankmesh: RANKMESH_REDIS=ON, but there is no Gloo engine, whose store it is: set RANKMESH_GLOO=ON, or set RANKMESH_REDIS=OFF")

configure(${settings} -DRANKMESH_REDIS=OFF)
expect("rankmesh: engines threads; left out: gloo (without Gloo), pmix (without Gloo engine, whose store it is), redis (RANKMESH_REDIS=OFF), mpi (without MPI of 3.1 or later), nccl (without nccl.h of 2.28.9 or later with cuda_runtime.h) ")
if(NOT result EQUAL 0)
    message(SEND_ERROR "what is only welcome is missing, and configuring fails:\n${output}")
endif()
