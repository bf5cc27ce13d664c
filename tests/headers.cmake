# rankmesh_header_tests(name library header...): two programs. One is built of a file for each header that includes
# nothing else; the other runs the examples of the headers' comments as tests.
function(rankmesh_header_tests name library)
    set(alone)
    set(examples)
    foreach(header ${ARGN})
        string(MAKE_C_IDENTIFIER ${header} id)
        set(file ${CMAKE_CURRENT_BINARY_DIR}/headers/alone_${id}.cpp)
        file(CONFIGURE OUTPUT ${file} CONTENT "#include <${header}>\n#include <${header}>\n")
        list(APPEND alone ${file})

        set(path ${PROJECT_SOURCE_DIR}/include/${header})
        file(STRINGS ${path} lines REGEX "^ *///     ")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
        if(lines)
            set(file ${CMAKE_CURRENT_BINARY_DIR}/headers/examples_${id}.cpp)
            set(script ${PROJECT_SOURCE_DIR}/tests/examples.cmake)
            add_custom_command(
                OUTPUT ${file}
                COMMAND ${CMAKE_COMMAND} -DHEADER=${header} -DPATH=${path} -DOUT=${file} -P ${script}
                DEPENDS ${path} ${script}
                VERBATIM)
            list(APPEND examples ${file})
        endif()
    endforeach()
    if(RANKMESH_COMPILE_CHECKS)
        add_library(${name}_alone OBJECT ${alone})
        rankmesh_warnings(${name}_alone)
        target_compile_options(${name}_alone PRIVATE -O0)  # nobody runs it
        target_link_libraries(${name}_alone PRIVATE ${library})
    endif()
    if(examples)
        add_executable(${name}_examples ${examples})
        rankmesh_warnings(${name}_examples)
        target_compile_options(${name}_examples PRIVATE -Wno-unused-function)
        target_link_libraries(${name}_examples PRIVATE ${library} GTest::gtest_main)
        gtest_discover_tests(${name}_examples TEST_PREFIX documentation. PROPERTIES TIMEOUT 60)
    endif()
endfunction()
