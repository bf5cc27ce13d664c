# Debian packages, by `cpack -G DEB`: scripts/debian configures, builds and tries them. They are for one's own machines: Debian's archive
# would also want a library package for each soname.
set(CPACK_PACKAGE_CONTACT "The rankmesh maintainers <maintainers@rankmesh.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/compress_documents.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

# What Debian wants in each package.
file(CONFIGURE OUTPUT debian/copyright CONTENT [[
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: rankmesh

Files: *
Copyright: 2026 The rankmesh authors
License: Apache-2.0
 On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text.
]])
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT debian/changelog CONTENT [[
rankmesh (@PROJECT_VERSION@) unstable; urgency=medium

  * CHANGELOG.md of the source has the changes.

 -- @CPACK_PACKAGE_CONTACT@  @now@
]] @ONLY)

# rankmesh_package(component name section text depends...): one component is one package.
function(rankmesh_package component name section text)
    install(FILES ${PROJECT_BINARY_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
    string(TOUPPER ${component} component)
    list(JOIN ARGN ", " depends)
    set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${name} PARENT_SCOPE)
    set(CPACK_DEBIAN_${component}_PACKAGE_SECTION ${section} PARENT_SCOPE)
    set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
    set(CPACK_COMPONENT_${component}_DESCRIPTION "${text}" PARENT_SCOPE)
endfunction()

# A static library leaves the linking of its engines to its user.
set(libraries)
if(NOT BUILD_SHARED_LIBS)
    get_property(libraries GLOBAL PROPERTY rankmesh_packages)
endif()
if(TARGET rankmesh_convert)  # which is static
    list(APPEND libraries libyaml-cpp-dev)
endif()
set(CPACK_COMPONENTS_ALL development)
rankmesh_package(development librankmesh-dev libdevel "The C++ and C libraries, their headers and CMake package." ${libraries})
if(RANKMESH_CLI)
    list(APPEND CPACK_COMPONENTS_ALL command)
    rankmesh_package(command rankmesh science "The command, its man pages and completions.")
endif()
if(RANKMESH_PYTHON)
    list(APPEND CPACK_COMPONENTS_ALL python)
    get_directory_property(minor DIRECTORY python DEFINITION Python_VERSION_MINOR)
    math(EXPR next "${minor} + 1")
    rankmesh_package(python python3-rankmesh python "The Python package." "python3 (>= 3.${minor})" "python3 (<< 3.${next})")
    # Python compiles modules beside them when root imports them; dpkg does not know those files.
    file(WRITE ${PROJECT_BINARY_DIR}/debian/prerm "#!/bin/sh\nset -e\npy3clean -p python3-rankmesh\n")
    set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/prerm)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
endif()
include(CPack)
