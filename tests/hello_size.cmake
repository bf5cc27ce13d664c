# A stripped program of threads has at most so many bytes: cmake -DPROGRAM=... -DSTRIP=... -DMOST=... -P hello_size.cmake
execute_process(COMMAND ${STRIP} -o ${PROGRAM}.stripped ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM}.stripped OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${PROGRAM}.stripped size)
message(STATUS "${output}${size} bytes")
if(size GREATER MOST OR NOT output MATCHES "hello from 4 ranks, sum 6")
    message(FATAL_ERROR "a stripped program of threads has ${size} bytes, at most ${MOST} are wanted; link it with -Wl,-Map=FILE to see "
                        "which objects of the library it has, and for which symbols")
endif()
