# What most tests and examples include, read once for all of them: clang then takes about a quarter less for a test program, and
# g++ about a tenth. Builds without it, such as the release preset's, find an include that a test lacks.
target_precompile_headers(
    core_tests
    PRIVATE <gtest/gtest.h>
            <rapidcheck.h>
            <chrono>
            <filesystem>
            <fstream>
            <functional>
            <map>
            <mutex>
            <numeric>
            <optional>
            <random>
            <ranges>
            <regex>
            <set>
            <sstream>
            <string>
            <thread>
            <vector>
            <rankmesh/core/text.hpp>
            <rankmesh/engine/threads.hpp>)

# rankmesh_reuse_precompiled(directory): the C++ programs and objects of the directory and of those in it.
function(rankmesh_reuse_precompiled directory)
    get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
        get_target_property(type ${target} TYPE)
        get_target_property(sources ${target} SOURCES)
        get_target_property(own ${target} PRECOMPILE_HEADERS)
        if(type MATCHES "EXECUTABLE|OBJECT_LIBRARY" AND sources MATCHES "[.]cpp" AND NOT own)
            target_precompile_headers(${target} REUSE_FROM core_tests)
        endif()
    endforeach()
    get_property(folders DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
    foreach(folder ${folders})
        rankmesh_reuse_precompiled(${folder})
    endforeach()
endfunction()
rankmesh_reuse_precompiled(${PROJECT_SOURCE_DIR}/examples)
rankmesh_reuse_precompiled(${CMAKE_CURRENT_SOURCE_DIR})
