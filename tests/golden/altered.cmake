# Fails unless the golden command fails exactly the cases whose expectations were altered in a copy, says which, and
# knows a kind that nobody answers:
#     cmake -DGOLDEN=<the command> -DCASES=<its cases> -DWORK=<a folder of one's own> -P altered.cmake
cmake_minimum_required(VERSION 3.25)
file(READ ${CASES}/picotron.json text)
string(JSON count LENGTH ${text} cases)
string(JSON text SET "${text}" cases 0 expect n_new_group_calls 12345)
string(JSON text SET "${text}" cases 1 kind "\"manners\"")
file(WRITE ${WORK}/altered.json "${text}")
execute_process(COMMAND ${GOLDEN} ${WORK}/altered.json RESULT_VARIABLE result OUTPUT_VARIABLE output)
math(EXPR passed "${count} - 2")
foreach(expected "expected 12345 got" "nobody here knows this kind" "\nrefused: none\n${passed} passed, 2 failed\n$")
    if(NOT output MATCHES "${expected}")
        message(FATAL_ERROR "the output has no '${expected}':\n${output}")
    endif()
endforeach()
if(NOT result EQUAL 1)
    message(FATAL_ERROR "it ended with ${result}, not 1")
endif()
