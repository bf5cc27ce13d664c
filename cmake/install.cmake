include(CMakePackageConfigHelpers)

set(targets rankmesh)
if(TARGET rankmesh_mpi)
    list(APPEND targets rankmesh_mpi)
endif()
if(TARGET rankmesh_nccl)
    list(APPEND targets rankmesh_nccl)
endif()
# Each in a file of its own, so that a component is found without what only another one needs.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/rankmesh)
install(TARGETS rankmesh_core EXPORT rankmeshCoreTargets)
install(TARGETS rankmesh_threads EXPORT rankmeshThreadsTargets)
install(TARGETS ${targets} EXPORT rankmeshTargets)
foreach(export rankmeshCoreTargets rankmeshThreadsTargets rankmeshTargets)
    install(EXPORT ${export} NAMESPACE rankmesh:: DESTINATION ${package})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

get_target_property(RANKMESH_TYPE rankmesh TYPE)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/rankmeshConfig.cmake.in ${PROJECT_BINARY_DIR}/rankmeshConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rankmeshConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rankmeshConfig.cmake ${PROJECT_BINARY_DIR}/rankmeshConfigVersion.cmake
        DESTINATION ${package})

set(pkg_config ${PROJECT_BINARY_DIR}/pkgconfig)
rankmesh_pkg_config(${pkg_config}/rankmesh-core.pc)
rankmesh_pkg_config(${pkg_config}/rankmesh-threads.pc rankmesh_threads)
rankmesh_pkg_config(${pkg_config}/rankmesh.pc rankmesh)
install(DIRECTORY ${pkg_config}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
