# rankmesh_warnings(target): the warnings we hold ourselves to; errors only in our presets, never for those who embed us.
function(rankmesh_warnings target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wnon-virtual-dtor)
endfunction()
