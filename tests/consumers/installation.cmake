include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK}/prefix)
run("installation" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
# The command comes with its man pages and completions.
if(EXISTS ${WORK}/prefix/bin/rankmesh)
    foreach(file man/man1/rankmesh.1 man/man1/rankmesh-plan.1 bash-completion/completions/rankmesh
            zsh/site-functions/_rankmesh fish/vendor_completions.d/rankmesh.fish)
        if(NOT EXISTS ${WORK}/prefix/share/${file})
            message(FATAL_ERROR "share/${file} is not installed")
        endif()
    endforeach()
endif()
