# The README's recipe for the library alone, as it stands there, in a copy without what only tests and the command need.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
set(work ${WORK}/recipe)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work}/home ${work}/source ${work}/program)
foreach(part CMakeLists.txt cmake include src)
    file(CREATE_LINK ${SOURCE}/${part} ${work}/source/${part} SYMBOLIC)
endforeach()

file(READ ${SOURCE}/README.md readme)
if(NOT readme MATCHES "\n```sh\n([^`]+)```\n.*\n```cmake\n([^`]+)```")
    message(FATAL_ERROR "README.md has no block of sh with a block of cmake after it")
endif()
set(commands "${CMAKE_MATCH_1}")
set(use "${CMAKE_MATCH_2}")

set(environment HOME=${work}/home CC=${C} CXX=${CXX} CMAKE_GENERATOR=Ninja CMAKE_BUILD_TYPE=None "CXXFLAGS=${recipe_flags}"
                CMAKE_EXPORT_COMPILE_COMMANDS=ON CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
file(WRITE ${work}/commands.sh "set -e\ncd ${work}/source\n${commands}")
run("recipe" ${CMAKE_COMMAND} -E env ${environment} sh ${work}/commands.sh)
if(NOT output MATCHES "\\[[0-9]+/([0-9]+)\\] " OR CMAKE_MATCH_1 GREATER 20)
    message(FATAL_ERROR "the library alone takes more than 20 steps:\n${output}")
endif()
message(STATUS "${CMAKE_MATCH_1} steps")

file(COPY ${SOURCE}/tests/consumers/installed/main.cpp DESTINATION ${work}/program)
file(WRITE ${work}/program/CMakeLists.txt
     "cmake_minimum_required(VERSION 3.25)\nproject(program LANGUAGES CXX)\nadd_executable(program main.cpp)\n${use}")
run("configuration" ${CMAKE_COMMAND} -S ${work}/program -B ${work}/program/build ${compilers}
    -DCMAKE_PREFIX_PATH=${work}/home/rankmesh)
run("build" ${CMAKE_COMMAND} --build ${work}/program/build)
