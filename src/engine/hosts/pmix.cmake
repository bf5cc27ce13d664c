# The rendezvous under launchers that speak PMIx, or one sentence in its place.
if(RANKMESH_PMIX)
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(PMIX QUIET pmix)
    endif()
endif()
rankmesh_decide(PMIX "${PMIX_FOUND}" "pkg-config package pmix" "install libpmix-dev and pkg-config")

if(RANKMESH_HAS_PMIX)
    find_library(RANKMESH_PMIX_LIBRARY pmix REQUIRED HINTS ${PMIX_LIBRARY_DIRS})
    mark_as_advanced(RANKMESH_PMIX_LIBRARY)
    target_sources(rankmesh_engines PRIVATE ../hosts/pmix_client.cpp)
    target_include_directories(rankmesh_engines SYSTEM PRIVATE ${PMIX_INCLUDE_DIRS})
    # An installed package goes to machines on which it lies elsewhere.
    rankmesh_link_engines(-lpmix $<BUILD_INTERFACE:${RANKMESH_PMIX_LIBRARY}> $<INSTALL_INTERFACE:-lpmix>)
else()
    target_sources(rankmesh_engines PRIVATE ../absent/pmix.cpp)
endif()
