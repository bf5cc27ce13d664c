# Fails where a shared library exports what is not for its users, or not what is:
#     cmake -DNM=nm -DSHARED=librankmesh.so -DSTATIC=librankmesh.a -DROOT=<the project> -P exports.cmake
# Both are made of the same objects. Names are read as the Itanium ABI mangles them.
cmake_minimum_required(VERSION 3.25)
set(ours "^_Z(T[ISV])?N[KRO]*8rankmesh")
set(detail "${ours}6detail")
set(standard "^_Z(T[ISV]|GV|Z)?N?K?(S[tabsiod]|9__gnu_cxx|P?F)")
set(c_interface "^rankmesh_[a-z]")
# Of src/view/canvas.hpp and the grid of a scene, of src/c behind the header for C, and of src/plan: the headers there and what one file has for itself.
set(behind_the_headers "^_ZN[KRO]*8rankmesh(4view(4Line|4flow|6ink_of|10paint_grid|10picture_of|11end_of_grid)|1c|4plan[0-9]+(of_|Beside|Candidates|Csv|LayerOnDevice|PassSeconds|Rates|Settings?I|Stages|check_at|check_axes|check_numbers|check_settings|check_sizes|divisors|interleaved_ends|kept|legal_|lower_bound|most_layers|ranks_of|read_word|refuse_all|splits|split_bound|stages_of)|10frameworks[0-9]+(of_|add_|accessors_of|axes_of|kind_of|kinds_in|words_of|Kind[0-9]|[a-z0-9_]+Ev))")

# defined(symbols types file option...): what a file defines, of some of nm's types.
function(defined symbols types file)
    execute_process(COMMAND ${NM} --defined-only ${ARGN} ${file} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[0-9a-f]+ [${types}] [^\n]+" lines "${output}")
    list(TRANSFORM lines REPLACE "^[^ ]+ . " "")
    list(REMOVE_DUPLICATES lines)
    set(${symbols} ${lines} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE headers ${ROOT}/include/*.hpp)
list(APPEND headers ${ROOT}/src/frameworks/rows.hpp)  # which rankmesh::convert, a library of its own, reads
set(declarations)
foreach(header ${headers})
    file(STRINGS ${header} lines REGEX "RANKMESH_EXPORT")
    list(APPEND declarations ${lines})
endforeach()

set(breaches)
defined(exported A-Za-z ${SHARED} -D)
foreach(symbol ${exported})
    if(symbol MATCHES "${detail}")
        string(REGEX REPLACE ".*6detail[0-9]+([a-z_]+).*" "\\1" name "${symbol}")
        if(NOT declarations MATCHES "RANKMESH_EXPORT [^;(]*[ &*]${name}\\(")
            list(APPEND breaches "exported, but of detail and no function that a public header exports: ${symbol}")
        endif()
    elseif(NOT symbol MATCHES "${ours}|${standard}|${c_interface}")
        list(APPEND breaches "exported, but of another library: ${symbol}")
    endif()
endforeach()

defined(functions T ${STATIC})
foreach(symbol ${functions})
    if(symbol MATCHES "${ours}" AND NOT symbol MATCHES "${detail}|${behind_the_headers}" AND NOT symbol IN_LIST exported)
        list(APPEND breaches "not exported, though outside of detail; its declaration needs RANKMESH_EXPORT: ${symbol}")
    endif()
endforeach()

# An exception is caught on the other side of the boundary by its one type.
foreach(header core/error.hpp frameworks/error.hpp)
    file(STRINGS ${ROOT}/include/rankmesh/${header} errors REGEX "^class .* : public")
    foreach(error ${errors})
        string(REGEX REPLACE ".* ([A-Za-z]+) : public.*" "\\1" name "${error}")
        if(NOT exported MATCHES "_ZTIN8rankmesh[0-9a-z]*${name}E")
            list(APPEND breaches "the type of an exception is not exported: ${name}")
        endif()
    endforeach()
endforeach()

list(LENGTH exported count)
if(count GREATER 1050)
    list(APPEND breaches "${count} symbols are exported, more than 1050")
endif()
if(breaches)
    list(JOIN breaches "\n" breaches)
    message(FATAL_ERROR "${SHARED}\n${breaches}")
endif()
message(STATUS "${count} symbols are exported")
