include(CMakePackageConfigHelpers)

set(targets rankmesh_core rankmesh)
if(TARGET rankmesh_mpi)
    list(APPEND targets rankmesh_mpi)
endif()
if(TARGET rankmesh_nccl)
    list(APPEND targets rankmesh_nccl)
endif()
install(TARGETS ${targets} EXPORT rankmeshTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rankmeshTargets NAMESPACE rankmesh:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rankmesh)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/rankmeshConfig.cmake.in ${PROJECT_BINARY_DIR}/rankmeshConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rankmesh)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rankmeshConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rankmeshConfig.cmake ${PROJECT_BINARY_DIR}/rankmeshConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rankmesh)
