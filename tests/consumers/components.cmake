include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

# says(pattern components link option...): a project that asks for components and links targets is refused in these words.
function(says pattern components link)
    file(REMOVE_RECURSE ${WORK}/components)
    execute_process(
        COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumers/components -B ${WORK}/components ${compilers}
                -DCMAKE_PREFIX_PATH=${WORK}/prefix "-DCOMPONENTS=${components}" "-DLINK=${link}" ${ARGN}
        RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
    string(REGEX REPLACE "[ \n]+" " " output "${output}")
    if((result EQUAL 0 AND NOT pattern STREQUAL "") OR NOT output MATCHES "${pattern}")
        message(FATAL_ERROR "components '${components}' with ${ARGN}: '${pattern}' is not in\n${output}")
    elseif(pattern STREQUAL "" AND NOT result EQUAL 0)
        message(FATAL_ERROR "components '${components}' with ${ARGN} are refused:\n${output}")
    endif()
endfunction()

says("no component 'cuda' here: there are core, threads, rankmesh, convert, convert_threads, mpi, gloo and nccl" "core;cuda" "")
says("cannot be linked|does not agree" "core;threads;rankmesh" "rankmesh::threads;rankmesh::rankmesh")
foreach(engine mpi gloo)
    string(TOUPPER ${engine} ENGINE)
    if(HAS_${ENGINE})
        set(name ${ENGINE})
        if(engine STREQUAL "gloo")
            set(name Gloo)
        endif()
        # A shared library links its engines itself; only rankmesh::mpi needs the headers of one.
        set(refusal "built with ${name}, which is not found here: .*COMPONENTS threads or core")
        if(SHARED_LIBS AND engine STREQUAL "gloo")
            set(refusal "")
        endif()
        says("${refusal}" "${engine}" "" -DCMAKE_DISABLE_FIND_PACKAGE_${name}=ON)
        says("" "${engine}" "rankmesh::rankmesh")
    else()
        says("built without that engine; configure it with -DRANKMESH_${ENGINE}=ON" "${engine}" "")
    endif()
endforeach()
