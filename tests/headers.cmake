# What those who include us may have switched on, and do not wish to hear from us.
set(gnu_warnings -Wall -Wextra -Wpedantic -Wshadow -Wuseless-cast -Wconversion -Wsign-conversion -Wold-style-cast
                 -Wdouble-promotion -Wcast-qual -Wcast-align -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wundef
                 -Wredundant-decls -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wnull-dereference -Wformat=2
                 -Wzero-as-null-pointer-constant -Wswitch-enum)
set(clang_warnings -Weverything -Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-c++20-compat -Wno-padded -Wno-float-equal
                   -Wno-unsafe-buffer-usage -Wno-weak-vtables)

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
        set_target_properties(${name}_examples PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
        rankmesh_warnings(${name}_examples)
        target_compile_options(${name}_examples PRIVATE $<$<CXX_COMPILER_ID:GNU>:${gnu_warnings}> -Wno-unused-function)
        target_link_libraries(${name}_examples PRIVATE ${library} GTest::gtest_main)
        rankmesh_discover(${name}_examples TEST_PREFIX documentation. PROPERTIES TIMEOUT 300)
    endif()
endfunction()
