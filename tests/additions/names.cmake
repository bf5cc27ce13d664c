# Counts the files outside of an engine's or a framework's own ones whose code names it: those that a new one touches.
#     cmake -DROOT=<the project> -P names.cmake
# Fails where they are more than CONTRIBUTING says, and names them. Comments do not count, nor does what another framework
# calls by that name.
cmake_minimum_required(VERSION 3.25)
set(engines gloo mpi)
set(devices nccl)  # an engine for devices is made by C and verified by the command in files of their own, too
file(GLOB rows RELATIVE ${ROOT}/src/frameworks ${ROOT}/src/frameworks/*/rows.cpp)
list(TRANSFORM rows REPLACE "/rows[.]cpp$" "")
set(most_of_rows 0)
set(most_of_engines 8)
set(most_of_devices 12)
# Words of launchers, frameworks and their files, not the engine.
set(others_of_gloo "/frameworks/|/explain|/store/|/membership/|/hosts/")
set(others_of_mpi "/explain|/store/|/membership/|/hosts/|^cmake/test_environment|/cluster/read/|/place")
set(others_of_nccl "/frameworks/|/explain|/cluster/read/|^cli/check|^cli/doctor_steps")  # and versions of the library; what doctor makes it do
# Which its first version was; whose layouts plan serves; whose logs explain reads.
set(others_of_vllm "/frameworks/megatron2022|/nemo_rl|/areal|^cli/plan|/plan/|^src/explain/read/signatures")
set(others_of_sglang "/areal|^cli/plan|/plan/")  # what runs a component of its allocation_mode; whose layouts plan serves
set(others_of_archon "/areal")
set(topologies "/topology|/frameworks/grid|^src/convert/converters[.]cpp")  # which both have, and a list
set(others_of_areal "${topologies}|/archon|^src/convert/sources")
set(others_of_deepspeed "${topologies}|/accelerate/|^cli/|/plan/")  # what runs on it
# Of its grid; how it cuts; what has its first version, runs on it or writes its settings.
set(others_of_megatron "^src/convert/converters[.]cpp|^cli/|core/sharding|/megatron2022|/areal|/verl|/nemo_rl|/plan/")
set(others_of_deepspeed_groups "/deepspeed/")  # whose experts it groups
set(others_of_megatron2022 "/plan/")  # whose constants have another name
set(others_of_picotron "^cli/")  # examples of the help
set(others_of_olmo "/plan/")  # which writes its configuration
set(others_of_transformers "/plan/")  # whose configurations plan reads
set(others_of_torchtitan "^cli/|/plan/")  # and what its configuration says beside where ranks stand

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/include/*.hpp ${ROOT}/include/*.h ${ROOT}/src/* ${ROOT}/cli/* ${ROOT}/cmake/*)
list(APPEND files CMakeLists.txt)
list(FILTER files EXCLUDE REGEX "^src/plan/data/|/flags[.]csv$")  # names of frameworks that were measured, flags of others
foreach(file ${files})
    file(READ ${ROOT}/${file} code)
    if(file MATCHES "[.][ch]p*$")
        string(REGEX REPLACE "//[^\n]*" "" code "${code}")
    else()
        string(REGEX REPLACE "#[^\n]*" "" code "${code}")
    endif()
    string(TOLOWER "${code}" code)
    foreach(name ${engines} ${devices} ${rows})
        if(file MATCHES "/${name}[/._]" OR (others_of_${name} AND file MATCHES "${others_of_${name}}"))
            continue()
        elseif(code MATCHES "(^|[^a-z0-9])${name}([^a-z0-9]|$)")
            list(APPEND touched_by_${name} ${file})
        endif()
    endforeach()
endforeach()

set(wrong 0)
foreach(kind engines devices rows)
    foreach(name ${${kind}})
        list(LENGTH touched_by_${name} count)
        list(JOIN touched_by_${name} ", " listed)
        message(STATUS "${name}: ${count} of at most ${most_of_${kind}}: ${listed}")
        if((count EQUAL 0 AND most_of_${kind}) OR count GREATER most_of_${kind})
            math(EXPR wrong "${wrong} + 1")
        endif()
    endforeach()
endforeach()
if(wrong GREATER 0)
    message(FATAL_ERROR "${wrong} of them are named by more files than a new one may touch, or by none")
endif()
